// All elements are created here: text is always set as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

// An HTML element; `properties` are attributes, `on...` listeners, or `dataset`.
export function element(name, properties = {}, ...children) {
  return build(document.createElement(name), properties, children);
}

export function svg(name, properties = {}, ...children) {
  return build(document.createElementNS(SVG, name), properties, children);
}

export function hidden(text) {
  return element("span", { class: "visually-hidden" }, text);
}

function build(made, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(made.dataset, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A sentence as text with one word marked, cut to `around` words on either side of it.
export function marked(tokens, position, around = Infinity) {
  const first = Math.max(0, position - around);
  const last = Math.min(tokens.length, position + around + 1);
  const before = join(tokens.slice(first, position));
  const after = join(tokens.slice(position + 1, last));
  const gap = after && !NO_SPACE_BEFORE.test(after) ? " " : "";
  return [
    (first > 0 ? "… " : "") + before + (before ? " " : ""),
    element("mark", {}, tokens[position]),
    gap + after + (last < tokens.length ? " …" : ""),
  ];
}

const NO_SPACE_BEFORE = /^([.,;:!?)\]%…’”]|n't|['’](s|re|ve|ll|d|m)\b)/;

// Tokens as running text: no space before punctuation and clitics.
export function join(tokens) {
  return tokens.reduce(
    (text, token) => text + (text && !NO_SPACE_BEFORE.test(token) ? " " : "") + token,
    "",
  );
}
