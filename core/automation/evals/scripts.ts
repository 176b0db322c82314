import { hasCode } from '#core/base/errors.ts';
import { isJsonObject, type Json, parseJsonValue } from '#core/base/json.ts';
import { type AssertResult, failed } from '#core/manifest/evals/check-output.ts';
import { type Assert, shortText } from '#core/manifest/evals/suite.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';

/** Time of one program. */
const PROGRAM_MS = 10_000;
/** Time until the sandbox of a case is there. */
const OPEN_MS = 120_000;
const MAX_PRINTED_BYTES = 64 * 1024;
const MEMORY_BYTES = 256 * 1024 ** 2;
const DISK_BYTES = 16 * 1024 ** 2;
const PROCESSES = 32;
/** Begins the line with the result; all that a program prints itself comes before. */
const RESULT = '#result ';

/** What a program sees. */
export interface ScriptFacts {
  readonly output: Json;
  readonly vars: Json;
  readonly costUsd: number | null;
  readonly latencyMs: number;
}

/**
 * Reads code from stdin and prints its value. One line is an expression, or declarations and an expression after the last semicolon outside of
 * texts; more are the body of a function, as in promptfoo. A module is a function of both.
 */
const JAVASCRIPT = `
const lastSemicolon = (code) => {
  let quote = '', last = -1;
  for (let at = 0; at < code.length; at++) {
    const character = code[at];
    if (character === '\\\\') at++;
    else if (quote !== '') { if (character === quote) quote = ''; }
    else if ('\\'"\`'.includes(character)) quote = character;
    else if (character === ';') last = at;
  }
  return last;
};
const bodyOf = (code) => {
  if (code.trimEnd().includes('\\n')) return code;
  const plain = code.trim().replace(/;+\\s*$/, '');
  if (!/^(const|let|var)\\s/.test(plain)) return 'return ' + plain;
  const last = lastSemicolon(plain) + 1;
  return last === 0 ? plain : plain.slice(0, last) + ' return ' + plain.slice(last);
};
let text = '';
process.stdin.on('data', (part) => { text += part; }).on('end', async () => {
  const { code, output, context } = JSON.parse(text);
  const show = (result) => process.stdout.write('\\n${RESULT}' + JSON.stringify(result) + '\\n', () => process.exit(0));
  try {
    let value;
    if (/\\bmodule\\.exports\\b/.test(code)) {
      const module = { exports: undefined };
      new Function('module', 'require', code)(module, require);
      value = await module.exports(output, context);
    } else if (/^export\\s+default\\b/m.test(code)) {
      const module = await import('data:text/javascript,' + encodeURIComponent(code));
      value = await module.default(output, context);
    } else value = await new Function('output', 'context', 'require', bodyOf(code))(output, context, require);
    show({ value: value === undefined ? null : value });
  } catch (error) {
    show({ error: String(error && error.message || error) });
  }
});
`;

const PYTHON = `
import json, sys
given = json.load(sys.stdin)
code, output, context = given["code"], given["output"], given["context"]
try:
    scope = {}
    if "def get_assert" in code:
        exec(code, scope)
        value = scope["get_assert"](output, context)
    elif "\\n" in code.rstrip():
        body = "\\n".join("    " + line for line in code.splitlines())
        exec("def check(output, context):\\n" + body, scope)
        value = scope["check"](output, context)
    else:
        value = eval(code.strip(), {"json": json}, {"output": output, "context": context})
    result = {"value": value}
    shown = json.dumps(result)
except BaseException as error:
    shown = json.dumps({"error": type(error).__name__ + ": " + str(error)})
sys.stdout.write("\\n${RESULT}" + shown + "\\n")
`;

/** Quotes a text for the shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

const COMMANDS = {
  javascript: `node -e ${quoted(JAVASCRIPT)}`,
  python: `python3 -c ${quoted(PYTHON)}`,
} as const;

/**
 * Runs the programs of a case's asserts in a sandbox without secrets and without network, one after another, and returns their results. A
 * program that throws, never ends or prints too much fails with the reason. Throws RATE_LIMITED if no sandbox became free.
 */
export async function runScripts(
  deps: Pick<Deps, 'sandbox' | 'clock'>,
  workspaceId: string,
  asserts: readonly { readonly assert: Assert; readonly part: Json }[],
  facts: ScriptFacts,
): Promise<readonly AssertResult[]> {
  if (asserts.length === 0) return [];
  const deadline = deps.clock.now() + OPEN_MS + asserts.length * PROGRAM_MS;
  let session: SandboxSession;
  try {
    session = await deps.sandbox.open({
      owner: workspaceId,
      env: {},
      egress: 'none',
      purpose: 'run',
      deadline,
      turn: { owner: workspaceId, deadline },
      limits: {
        memoryBytes: MEMORY_BYTES,
        diskBytes: DISK_BYTES,
        fileBytes: DISK_BYTES,
        processes: PROCESSES,
        cpuSeconds: PROGRAM_MS / 1000,
      },
    });
  } catch (error) {
    if (!hasCode(error, 'SANDBOX_UNAVAILABLE') && !hasCode(error, 'SANDBOX_LOST')) throw error;
    return asserts.map(() => failed(`the program could not run: ${(error as Error).message}`));
  }
  try {
    const results: AssertResult[] = [];
    for (const { assert, part } of asserts) results.push(await runScript(session, assert, part, facts));
    return results;
  } finally {
    await session.close();
  }
}

async function runScript(
  session: SandboxSession,
  assert: Assert,
  output: Json,
  { vars, costUsd, latencyMs }: ScriptFacts,
): Promise<AssertResult> {
  const context = { vars, cost: costUsd, latencyMs };
  const stdin = Buffer.from(JSON.stringify({ code: String(assert.value), output, context }));
  const command = COMMANDS[assert.type as keyof typeof COMMANDS];
  const printed: Uint8Array[] = [];
  const events = session.exec({
    command,
    cwd: '/home/user',
    stdin,
    timeoutMs: PROGRAM_MS,
    maxOutputBytes: MAX_PRINTED_BYTES,
    endsAll: true,
  });
  for await (const event of events) {
    if (event.type === 'stdout') printed.push(event.data);
    if (event.type !== 'exit') continue;
    const { reason, exitCode } = event.exit;
    if (reason === 'timeout') return failed(`the program did not end within ${PROGRAM_MS / 1000} s`);
    if (reason === 'output_limit') return failed(`the program printed more than ${MAX_PRINTED_BYTES / 1024} KB`);
    if (reason !== 'exited') return failed(`the program was stopped: ${reason}`);
    return readResult(assert, Buffer.concat(printed).toString(), exitCode);
  }
  return failed('the program was stopped: sandbox_lost');
}

/**
 * Reads what a program returned: a boolean, a number, or `{pass, score, reason}`, as in promptfoo. Its Python may also return these as a text,
 * name `pass` `pass_`, and fail an object by the threshold.
 */
export function readResult({ type, threshold, isNot }: Assert, printed: string, exitCode: number): AssertResult {
  const line = printed.split('\n').findLast((each) => each.startsWith(RESULT));
  const answer = line === undefined ? undefined : parseJsonValue(line.slice(RESULT.length));
  if (!isJsonObject(answer)) return failed(`the program ended with status ${exitCode} and returned nothing`);
  if (typeof answer.error === 'string') return failed(`the program failed: ${answer.error}`);
  const value = type === 'python' ? pythonValue(answer.value) : answer.value;
  const decided = (pass: boolean, score: number, reason?: Json): AssertResult => {
    const isRight = pass !== isNot;
    const told =
      typeof reason === 'string' && reason !== '' ? reason : isRight ? 'passed' : `the program returned ${pass}`;
    return { pass: isRight, score, reason: shortText(told) };
  };
  if (typeof value === 'boolean') return decided(value, value !== isNot ? 1 : 0);
  if (typeof value === 'number') return decided(threshold === undefined ? value > 0 : value >= threshold, value);
  if (isJsonObject(value)) {
    const { pass, score, reason } = value;
    if (typeof pass === 'boolean' && typeof score === 'number' && typeof reason === 'string') {
      const isLow = type === 'python' && threshold !== undefined && score < threshold;
      return isLow
        ? decided(false, score, `score ${score} is less than ${threshold}: ${reason}`)
        : decided(pass, score, reason);
    }
  }
  return failed('the program must return a boolean, a number or {pass, score, reason}');
}

/** Reads what Python returned as a text. */
function pythonValue(value: Json | undefined): Json | undefined {
  const text = typeof value === 'string' ? value.trim() : undefined;
  const read =
    text === undefined || text === ''
      ? value
      : (parseJsonValue(/^(true|false)$/i.test(text) ? text.toLowerCase() : text) ?? value);
  return isJsonObject(read) && read.pass === undefined && read.pass_ !== undefined
    ? { ...read, pass: read.pass_ }
    : read;
}
