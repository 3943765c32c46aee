// Requests to the API of this server.

const TOKEN = /^[\x21-\x7e]+$/; // `fetch` fails with other characters in a header
let token = sessionStorage.getItem("token");

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// Use a token from now on if the server accepts it; else an ApiError is thrown.
export async function useToken(given) {
  if (!TOKEN.test(given)) throw new ApiError(401, "no valid token");
  const before = token;
  token = given;
  try {
    await info();
  } catch (error) {
    token = before;
    throw error;
  }
  sessionStorage.setItem("token", given);
}

export const hasToken = () => Boolean(token);

export const info = () => get("/api/info");
export const score = (texts, signal) => post("/api/score", { texts }, signal);
export const substitutes = (sentence, position, k) =>
  post("/api/substitutes", { sentence, position, k });
export const neighbors = (sentence, position, layers, any_word, k) =>
  post("/api/neighbors", { sentence, position, layers, any_word, k });
export const predict = (task, body) => post(`/api/predict/${encodeURIComponent(task)}`, body);

// All layers of all tokens: { texts: [{ tokens, sentences }], layers, width, values }.
export async function embed(texts, signal) {
  const body = { texts, layers: "all" };
  const answer = await request("/api/embed", body, signal, "application/vnd.safetensors");
  return readSafetensors(await answer.arrayBuffer());
}

async function get(path) {
  return (await request(path)).json();
}

async function post(path, body, signal) {
  return (await request(path, body, signal)).json();
}

async function request(path, body, signal, accept = "application/json") {
  const headers = { Accept: accept };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method: body ? "POST" : "GET",
      headers,
      body: body && JSON.stringify(body),
      signal,
    });
  } catch {
    throw new ApiError(0, "No response from the server. Is it running?");
  }
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    throw new ApiError(answer.status, told.error ?? `The server responded with status ${answer.status}.`);
  }
  return answer;
}

// Eight bytes with the length of a JSON header, the header, then the numbers of the one tensor.
function readSafetensors(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const { shape, data_offsets } = header.vectors;
  const bytes = buffer.slice(8 + length + data_offsets[0], 8 + length + data_offsets[1]);
  return {
    texts: JSON.parse(header.__metadata__.texts),
    layers: shape[0],
    tokens: shape[1],
    width: shape[2],
    values: new Float32Array(bytes),
  };
}
