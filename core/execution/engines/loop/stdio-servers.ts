import type { PlatformError } from '#core/base/errors.ts';
import { countText } from '#core/base/size-text.ts';
import type { McpServer } from '#core/manifest/definition.ts';
import { filledValue } from '#core/manifest/parsing/mcp-servers.ts';
import { type ExecExit, type ExecOutcome, execToEnd, type SandboxSession } from '#core/ports/sandbox.ts';
import { ToolServerFailure, type ToolServerProcess } from '#core/ports/tool-servers.ts';
import type { SecretMask } from '#core/runs/masking/masking.ts';
import { STDIO_BRIDGE } from './stdio-bridge.ts';
import { sandboxFailure } from './tool-outcome.ts';
import { HOME } from './tool-sandbox.ts';

const FOLDER = '.mcp-servers';
/** Timeout of the commands that the bridge answers by itself. */
const SHORT_MS = 20_000;
/** Timeout of a request, whose signal usually ends it before. */
const ASK_MS = 150_000;
/** How much of a server's stderr an error shows. */
const SHOWN_LINES = 10;
const SHOWN_CHARACTERS = 1500;
/** Exit code of the bridge when its background process is gone. */
const NO_BRIDGE = 3;

export interface StdioServerOptions {
  readonly session: SandboxSession;
  readonly server: McpServer;
  /** Secrets by their names. */
  readonly secrets: Readonly<Record<string, string | undefined>>;
  readonly mask: SecretMask;
  /** After this time the server ends by itself, should the sandbox outlive the run. */
  readonly seconds: number;
  /** Ends all commands. */
  readonly signal: AbortSignal;
}

/** Writes what {@link StdioServer} needs into the sandbox. */
export const prepareStdioServers = (session: SandboxSession): Promise<void> =>
  session.writeFile(`/tmp/${FOLDER}/bridge.pl`, Buffer.from(STDIO_BRIDGE));

/**
 * An MCP server that runs as a process in the run's sandbox, like the tools of the author: it has their environment,
 * network and limits, and ends with the sandbox. It starts once; nothing restarts it.
 */
export class StdioServer implements ToolServerProcess {
  readonly #options: StdioServerOptions;
  readonly #name: string;
  /** Why the run cannot go on: its sandbox was lost, or has used up its memory. */
  lost: PlatformError | undefined;

  constructor(options: StdioServerOptions) {
    this.#options = options;
    this.#name = options.server.name;
  }

  /** Throws {@link ToolServerFailure} if the sandbox cannot start a process. */
  async start(): Promise<void> {
    const { server, secrets, seconds } = this.#options;
    const { command, args = [], env = {} } = server;
    const variables = Object.entries(env).flatMap(([name, template]) => {
      const value = filledValue(template, secrets);
      return value === undefined ? [] : [`${name}=${value}`];
    });
    const words = [command!, ...args];
    const input = [words.length, ...words, ...variables].join('\0');
    const { exit, stderr } = await this.#run(`serve ${this.#name} ${seconds}`, input);
    if (exit.reason !== 'exited' || exit.exitCode !== 0) {
      throw new ToolServerFailure(`its process could not be started${this.#errorOutput(stderr)}`);
    }
  }

  async *ask(message: string, id: number, { maxBytes, signal }: AskOptions): AsyncGenerator<string> {
    if (signal.aborted) return;
    // The command ends by itself then. Killing it could harm the other processes of the sandbox.
    const end = () => void this.cancel('', id).catch(() => {});
    signal.addEventListener('abort', end, { once: true });
    const decoder = new TextDecoder();
    let rest: string[] = [];
    let bytes = 0;
    try {
      const request = { ...commandOf(`ask ${this.#name} ${id}`, message), timeoutMs: ASK_MS };
      const limits = { maxOutputBytes: Number.MAX_SAFE_INTEGER, signal: this.#options.signal };
      for await (const event of this.#options.session.exec({ ...request, ...limits })) {
        if (event.type === 'exit') this.#check(event.exit);
        if (event.type !== 'stdout') continue;
        const isEnding = bytes > maxBytes;
        bytes += event.data.byteLength;
        if (bytes > maxBytes) {
          if (!isEnding) end();
          continue;
        }
        const lines = decoder.decode(event.data, { stream: true }).split('\n');
        const last = lines.pop()!;
        for (const line of lines) {
          yield [...rest, line].join('');
          rest = [];
        }
        rest.push(last);
      }
    } finally {
      signal.removeEventListener('abort', end);
    }
    if (bytes > maxBytes) throw new ToolServerFailure(`it answered more than ${countText(maxBytes)} bytes`);
  }

  async send(message: string): Promise<void> {
    await this.#run(`send ${this.#name}`, message);
  }

  async cancel(message: string, id: number): Promise<void> {
    await this.#run(`cancel ${this.#name} ${id}`, message);
  }

  async ending(): Promise<ToolServerFailure | undefined> {
    const { exit, stdout } = await this.#run(`status ${this.#name}`, '');
    if (exit.exitCode === NO_BRIDGE) return new ToolServerFailure('its process was ended by another program');
    const text = Buffer.from(stdout).toString();
    const how = text.split('\n', 1)[0]!;
    if (how === 'running' || how === '') return undefined;
    return new ToolServerFailure(`${endingOf(how)}${this.#errorOutput(stdout.subarray(how.length + 1))}`);
  }

  async #run(command: string, input: string): Promise<ExecOutcome> {
    const { session, signal } = this.#options;
    const outcome = await execToEnd(session, { ...commandOf(command, input), timeoutMs: SHORT_MS, signal });
    this.#check(outcome.exit);
    return outcome;
  }

  #check(exit: ExecExit): void {
    switch (exit.reason) {
      case 'exited':
        return;
      case 'memory_limit':
      case 'sandbox_lost':
        this.lost ??= sandboxFailure(exit.reason);
        throw this.lost;
      default:
        throw this.#options.signal.reason ?? new ToolServerFailure('it did not take the message in time');
    }
  }

  /** Returns the last lines that the server has printed to stderr, as the end of a sentence. */
  #errorOutput(stderr: Uint8Array): string {
    // Masked before it is cut: a part of a secret is not recognized.
    const lines = this.#options.mask
      .text(Buffer.from(stderr).toString())
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '');
    const shown = lines.slice(-SHOWN_LINES).join(' | ').slice(-SHOWN_CHARACTERS);
    return shown === '' ? ', and printed nothing to stderr' : `. The end of its stderr: ${shown}`;
  }
}

interface AskOptions {
  readonly maxBytes: number;
  readonly signal: AbortSignal;
}

const commandOf = (command: string, input: string) => ({
  command: `exec perl "$TMPDIR/${FOLDER}/bridge.pl" ${command}`,
  cwd: HOME,
  stdin: Buffer.from(input),
});

function endingOf(how: string): string {
  const [kind, number] = how.split(' ');
  switch (kind) {
    case 'exit':
      return `its process has ended with the exit code ${number}`;
    case 'signal':
      return `its process was ended by signal ${number}`;
    case 'long':
      return 'it printed a line of more than 8 MB, and was stopped';
    default:
      return 'its process has closed its stdout, and was stopped';
  }
}
