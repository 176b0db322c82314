import { toEgress } from '../agents/install.ts';
import { type AgentVersion, bundleKey } from '../agents/store.ts';
import type { Deps } from '../deps.ts';
import { type ErrorExtra, hasCode, PlatformError } from '../errors.ts';
import { jsonProblem } from '../json.ts';
import { type ExecOutcome, execToEnd } from '../ports/sandbox.ts';
import type { Json } from '../ports/table.ts';
import { type SecretMask, shortenLog } from '../runs/masking.ts';
import type { Warning } from './warnings.ts';

/** A file of the call, under the path where the agent finds it. */
export interface Upload {
  readonly path: string;
  readonly content: Uint8Array;
}

export interface CodeRun {
  readonly agent: AgentVersion;
  readonly command: string;
  /** One JSON document. */
  readonly stdin: string;
  readonly uploads: readonly Upload[];
  /** Secrets and what else the agent finds in its environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly mask: SecretMask;
  /** Epoch milliseconds. */
  readonly deadline: number;
}

/** What came of it. `error` or `data`; everything masked. */
export interface CodeResult {
  readonly data?: Json;
  readonly warnings: Warning[];
  readonly error?: PlatformError;
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
  readonly executionMs: number;
}

/** `contract.md` 1.1: stderr in error messages is cut to 500 characters. */
const STDERR_TAIL_CHARACTERS = 500;

/**
 * Runs an agent's program once, in a fresh sandbox: one JSON document on stdin, one JSON value on stdout, the exit code
 * decides (`contract.md` 11.2).
 */
export async function runCode(deps: Deps, run: CodeRun): Promise<CodeResult> {
  const startedAt = deps.clock.now();
  const remaining = run.deadline - startedAt;
  const { config } = deps;
  const session = await deps.sandbox
    .open({
      bundle: bundleKey(run.agent.bundle!.sha256),
      layer: run.agent.install?.layer,
      env: run.env,
      egress: toEgress(config.sandboxEgress),
      purpose: 'run',
      limits: {
        memoryBytes: config.sandboxMemoryBytes,
        diskBytes: config.sandboxDiskBytes,
        fileBytes: config.sandboxDiskBytes,
        processes: config.sandboxProcesses,
        cpuSeconds: Math.ceil(remaining / 1000) + 1,
      },
    })
    .catch((error: unknown) => {
      if (!hasCode(error, 'SANDBOX_UNAVAILABLE')) throw error;
      throw new PlatformError('SANDBOX_ERROR', (error as Error).message, { category: 'setup_error' });
    });
  try {
    for (const upload of run.uploads) await session.writeFile(upload.path, upload.content);
    const timeoutMs = run.deadline - deps.clock.now();
    if (timeoutMs <= 0) throw new PlatformError('TIMEOUT', 'The deadline passed before the agent could be started.');
    const outcome = await execToEnd(session, { command: run.command, stdin: Buffer.from(run.stdin), timeoutMs });
    return interpret(deps, run, outcome);
  } finally {
    await session.close();
  }
}

function interpret(deps: Deps, { mask, deadline, agent }: CodeRun, { stdout, stderr, exit }: ExecOutcome): CodeResult {
  const text = Buffer.from(stdout).toString();
  const errorText = mask.text(Buffer.from(stderr).toString());
  const kept = {
    stdout: shortenLog(mask.text(text)),
    stderr: shortenLog(errorText),
    exitCode: exit.exitCode,
    executionMs: Math.round(exit.durationMs),
  };
  const failed = (code: 'SANDBOX_ERROR' | 'TIMEOUT' | 'INTERNAL_ERROR', message: string): CodeResult => {
    const tail = errorText.trim().slice(-STDERR_TAIL_CHARACTERS);
    const extra: ErrorExtra =
      code === 'SANDBOX_ERROR'
        ? { category: 'code_error', user_message: message, ...(tail !== '' && { stderr_tail: tail }) }
        : {};
    return { ...kept, warnings: [], error: new PlatformError(code, message, extra) };
  };

  switch (exit.reason) {
    case 'timeout':
    case 'aborted': {
      const own = agent.definition.timeout_seconds;
      const limit =
        own > 0 ? ` (timeout_seconds is ${own}; the caller's deadline and the platform's limit count, too)` : '';
      return failed(
        'TIMEOUT',
        `The agent was still running at its deadline, ${new Date(deadline).toISOString()}, and was stopped${limit}.`,
      );
    }
    case 'output_limit':
      return failed('SANDBOX_ERROR', 'The agent printed more than 10 MB and was stopped.');
    case 'memory_limit': {
      const limit = Math.floor(deps.config.sandboxMemoryBytes / 1024 ** 2);
      return failed('SANDBOX_ERROR', `The agent used more than ${limit} MB of memory and was stopped.`);
    }
    case 'sandbox_lost':
      return failed('INTERNAL_ERROR', 'the sandbox was lost');
    case 'exited':
      break;
  }

  const parsed = parseOutput(text);
  if (exit.exitCode !== 0) {
    const said = (parsed as { error?: unknown } | undefined)?.error;
    const message =
      typeof said === 'string' && said !== ''
        ? mask.text(said).slice(0, 2000)
        : `The agent ended with status ${exit.exitCode}.`;
    return failed('SANDBOX_ERROR', message);
  }
  if (text.trim() === '') return { ...kept, data: {}, warnings: [] };
  if (parsed === undefined) {
    const warning: Warning = {
      code: 'VALIDATION_SKIPPED',
      message: 'The agent printed something other than one JSON value; it is in data.result as text.',
    };
    return { ...kept, data: { result: mask.text(text) }, warnings: [warning] };
  }
  return { ...kept, data: mask.json(parsed), warnings: [] };
}

/** `undefined` when the text is not one JSON value, or one that cannot be handled. */
function parseOutput(text: string): Json | undefined {
  try {
    const value = JSON.parse(text) as Json;
    return jsonProblem(value) === undefined ? value : undefined;
  } catch {
    return undefined;
  }
}
