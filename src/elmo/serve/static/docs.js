// A page that describes the API, with an example call for each route.

import { byId, element } from "./dom.js";

const description = await (await fetch("/openapi.json")).json();
const schemas = description.components?.schemas ?? {};

const resolve = (schema) => (schema?.$ref ? schemas[schema.$ref.split("/").pop()] : schema) ?? {};
const bodyOf = (operation) => operation.requestBody?.content?.["application/json"]?.schema;

function showOperation(path, method, operation) {
  const body = resolve(bodyOf(operation));
  const fields = Object.entries(body.properties ?? {});
  return element(
    "section",
    {},
    element("h2", {}, path),
    element("p", { class: "lead" }, operation.description ?? operation.summary),
    fields.length ? element("h3", {}, "Request") : null,
    fields.length ? element("dl", { class: "fields" }, ...fields.flatMap(showField(body))) : null,
    element("h3", {}, "Responses"),
    element("dl", { class: "fields" }, ...Object.entries(operation.responses).flatMap(showAnswer)),
    element("pre", { tabindex: 0, "aria-label": `A call of ${path}` }, callOf(path, method, body)),
  );
}

const showField = (body) => ([name, field]) => {
  const about = resolve(field);
  const isWanted = body.required?.includes(name);
  const facts = [typeOf(field), isWanted ? "" : `default ${JSON.stringify(about.default)}`];
  return [
    element("dt", {}, name),
    element("dd", {}, [...facts, about.description].filter(Boolean).join(" · ")),
  ];
};

function showAnswer([status, answer]) {
  return [element("dt", {}, status), element("dd", {}, answer.description)];
}

function typeOf(field) {
  const about = resolve(field);
  if (about.anyOf) return about.anyOf.map(typeOf).join(" or ");
  if (about.enum) return about.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (about.type === "array") return `list of (${typeOf(about.items)})`;
  return about.type ?? "anything";
}

function callOf(path, method, body) {
  const address = `${location.origin}${path.replace("{task}", "TASK")}`;
  if (method === "get") return `curl ${address}`;
  const example = Object.fromEntries(
    Object.entries(body.properties ?? {})
      .filter(([, field]) => field.examples)
      .map(([name, field]) => [name, field.examples[0]]),
  );
  const json = JSON.stringify(example);
  return `curl ${address} -H 'Content-Type: application/json' \\\n  -d '${json}'`;
}

byId("operations").replaceChildren(
  ...Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => showOperation(path, method, operation)),
  ),
);
