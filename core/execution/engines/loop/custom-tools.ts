import type { Json } from '#core/base/json.ts';
import type { CustomTool } from '#core/manifest/definition.ts';
import { callsDependency } from '#core/manifest/parsing/orchestration.ts';
import type { ExecOutcome, SandboxSession } from '#core/ports/sandbox.ts';
import type { EngineRun } from '../engine.ts';
import { commandOutcome, errorOutcome, type ToolOutcome } from './tool-outcome.ts';
import { runToolCommand } from './tool-sandbox.ts';

/** File with a tool's parameters, for commands that name it. Other commands find theirs by {@link INPUT_VARIABLE}. */
const SHARED_INPUT = '/tmp/__tool_input.json';
const INPUT_VARIABLE = 'PLATFORM_TOOL_INPUT';
/** Longer parameters are passed by stdin: Linux limits one argument of a program to 128 KB (MAX_ARG_STRLEN). */
const MAX_WRITTEN_BYTES = 32 * 1024;

interface AskedCommand {
  readonly command: string;
  /** The parameters. */
  readonly json: string;
  readonly callId: string | undefined;
}

/** Runs the author's tools: commands with placeholders, whose parameters are also in a file. */
export class CustomTools {
  readonly #session: () => Promise<SandboxSession>;
  readonly #signal: AbortSignal;
  readonly #fill: EngineRun['fillCommand'];
  /** The last command that uses {@link SHARED_INPUT}; the next one waits for it. */
  #lastShared: Promise<unknown> = Promise.resolve();
  #inputs = 0;
  #hasCalledDependency = false;

  constructor(
    session: () => Promise<SandboxSession>,
    signal: AbortSignal,
    { fillCommand }: Pick<EngineRun, 'fillCommand'>,
  ) {
    this.#session = session;
    this.#signal = signal;
    this.#fill = fillCommand;
  }

  /** Whether a tool that calls another agent has succeeded. */
  get hasCalledDependency(): boolean {
    return this.#hasCalledDependency;
  }

  restore(hasCalledDependency: boolean): void {
    this.#hasCalledDependency = hasCalledDependency;
  }

  /** @param callId See {@link withCallId}. */
  async call(
    tool: CustomTool,
    parameters: Readonly<Record<string, Json>>,
    callId: string | undefined,
  ): Promise<ToolOutcome> {
    const filled = await this.#fill(tool.command, parameters);
    if ('problem' in filled) return errorOutcome(filled.problem);
    const session = await this.#session();
    const asked = { command: filled.command, json: JSON.stringify(parameters), callId };
    // Commands that name the shared file run one at a time, so that each finds its own parameters in it.
    const outcome = tool.command.includes('__tool_input')
      ? await this.#runInTurn(session, asked)
      : await this.#run(session, asked, `$TMPDIR/__tool_input.${++this.#inputs}.json`);
    const { reason, exitCode } = outcome.exit;
    if (reason === 'exited' && exitCode === 0 && callsDependency(tool.command)) this.#hasCalledDependency = true;
    return commandOutcome(outcome);
  }

  #runInTurn(session: SandboxSession, asked: AskedCommand): Promise<ExecOutcome> {
    const running = this.#lastShared.then(() => this.#run(session, asked, SHARED_INPUT));
    this.#lastShared = running.catch(() => {});
    return running;
  }

  #run(session: SandboxSession, { command, json, callId }: AskedCommand, file: string): Promise<ExecOutcome> {
    const isShort = Buffer.byteLength(json) <= MAX_WRITTEN_BYTES;
    // Bash writes the file itself: starting a program would take as long as many tools do. The sandbox recognizes this
    // line and
    // starts no bash if the command needs none (runner/perl/init.pl).
    const input = isShort ? quoted(json) : '"$(< /dev/stdin)"';
    const save = `export ${INPUT_VARIABLE}="${file}"; printf %s ${input} > "${file}" || exit; exec < /dev/null`;
    const stdin = isShort ? undefined : Buffer.from(json);
    return runToolCommand(session, { command: withCallId(callId, `${save}\n${command}`), stdin, signal: this.#signal });
  }
}

/**
 * Tells a command which call of a durable run it is, by the variable PLATFORM_TOOL_CALL_ID. The sandbox recognizes this
 * line, too.
 */
export const withCallId = (callId: string | undefined, command: string): string =>
  callId === undefined ? command : `export PLATFORM_TOOL_CALL_ID=${callId}\n${command}`;

/** Quotes a text as one word of a shell line. JSON has no NUL character. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
