import type { Warning } from '../engine.ts';

/** The bundle's file that a command starts. */
export interface Script {
  readonly name: string;
  readonly text: string;
}

const PYTHON_HANDLER = /^(?:async )?def (\w+)\(\s*event\b[^)\n]*\bcontext\b/m;
const NODE_HANDLER =
  /^(?:module\.)?exports\.(\w*handler)\s*=|^export (?:const|let|(?:async )?function) (\w*handler)\b|^module\.exports\s*=\s*\{\s*(\w*handler)\b/im;

const RULE =
  'The agent printed nothing to stdout, so data is {}. A program reads its input as JSON from stdin, and prints its result to stdout as one JSON value.';

/** Warning for a program that succeeded but printed nothing (`docs/interface/sandbox.md#program-protocol`). */
export function emptyOutputWarning(script: Script | undefined): Warning {
  const hint = script && handlerHint(script);
  return { code: 'VALIDATION_SKIPPED', message: hint === undefined ? RULE : `${RULE} ${hint}` };
}

/** Returns a hint for functions in the style of AWS Lambda handlers. */
function handlerHint({ name, text }: Script): string | undefined {
  const python = PYTHON_HANDLER.exec(text)?.[1];
  const node = NODE_HANDLER.exec(text)?.slice(1).find(Boolean);
  const handler = name.endsWith('.py') ? python : node;
  if (handler === undefined) return undefined;
  const call =
    handler === python
      ? `print(json.dumps(${handler}(json.load(sys.stdin), None)))`
      : `${handler}(JSON.parse(readFileSync(0, 'utf8'))).then((result) => console.log(JSON.stringify(result)))`;
  return `${name} defines ${handler}, which the platform does not call: end the file with ${call}.`;
}

const PORT = String.raw`(?:port[\s:=]+\d{2,5}|(?:localhost|0\.0\.0\.0|127\.0\.0\.1|\[::1?\]):\d{2,5})`;
const SERVER = new RegExp(
  String.raw`\b(?:listening|running|serving|started|ready|available)\b[^\n]{0,80}?${PORT}|\blistening (?:on|at) :?\d{2,5}\b`,
  'i',
);
/** Servers print their message at startup. */
const SEARCHED_CHARACTERS = 64 * 1024;

/** Whether a program's output shows that it waits for requests on a port. */
export const isServer = (printed: string): boolean => SERVER.test(printed.slice(0, SEARCHED_CHARACTERS));

/** Hint for a warm program that did not answer before the deadline of its run. */
export const NO_ANSWER_HINT =
  'The manifest has "reuse": the program must answer each line of stdin with a line on stdout, as serve() of the SDK does. One that reads stdin to its end waits forever.';

/** Hint for a program that was still running at its deadline. */
export const runningHint = (isServing: boolean): string =>
  `${
    isServing
      ? 'The program listens on a port and waits for requests.'
      : 'Does the program wait for requests or messages?'
  } An on_demand agent is started for each call: it reads its input from stdin, prints one JSON value and ends. Servers and bots are what run_mode "always_on" is for.`;
