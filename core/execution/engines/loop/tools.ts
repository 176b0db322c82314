import { hasCode, type PlatformError } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Approval, CustomTool } from '#core/manifest/definition.ts';
import { calledDependencies, callsDependency } from '#core/manifest/parsing/orchestration.ts';
import type { Clock } from '#core/ports/clock.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { LlmTool, LlmToolCall } from '#core/ports/llm.ts';
import type { SandboxFileError, SandboxSession } from '#core/ports/sandbox.ts';
import type { ModelCost } from '#core/runs/run.ts';
import type { WebDeps } from '../../web/fetch-page.ts';
import type { EngineRun } from '../engine.ts';
import { interruptedError } from '../interruption.ts';
import { WorkspaceFiles } from '../workspace-files.ts';
import { CustomTools, withCallId } from './custom-tools.ts';
import { listFiles, type ReadPlace, readFile, writeFile } from './file-tools.ts';
import { KeptFiles } from './kept-files.ts';
import { callLater } from './later-tool.ts';
import type { LoopFiles } from './loop-files.ts';
import { type McpDeps, McpTools } from './mcp-tools.ts';
import type { LoopPast, PastTurn } from './record.ts';
import { SUBMIT } from './submit.ts';
import {
  ASK_HUMAN,
  BUILT_IN_TOOLS,
  customToolDefinition,
  EVENT_URL,
  LATER,
  MEMORY_TOOLS,
  parameterProblem,
  WAIT,
  WEB_TOOLS,
  type WebTool,
} from './tool-definitions.ts';
import { commandOutcome, errorOutcome, outcomeOf, type ToolOutcome } from './tool-outcome.ts';
import { type BoundOutcome, type CallPlace, ToolOutput } from './tool-output.ts';
import { openToolSandbox, runToolCommand, type ToolSandboxDeps } from './tool-sandbox.ts';
import { waitUntil } from './wait-time.ts';
import type { WebTools } from './web-tools.ts';

/** Results stored in files may use an eighth of the sandbox's disk, and so of its memory. */
const KEPT_PART = 8;

/** Maximum number of sandboxes that one process replaces in a run. */
const MAX_LOSSES = 5;

type Parameters = { readonly [name: string]: Json };

export type LoopToolsDeps = ToolSandboxDeps & McpDeps & WebDeps & Pick<Deps, 'ids'>;

/** Loaded lazily: few tools stay, and smaller functions start faster. */
const warmTools = lazy(() => import('./warm-tools.ts'));

/**
 * The tools of one run (`docs/interface/loops.md`), except `submit_result`. Tools of the platform and the author run in
 * its
 * sandbox, which is opened while the model is still writing their first call; a loop without such a call has no
 * sandbox.
 */
export class LoopTools {
  readonly output: ToolOutput;
  /** Paths written by `write_file`, as the model named them. */
  readonly writtenFiles = new Set<string>();
  readonly #inSandbox: readonly LlmTool[];
  /** Tools of the author whose programs stay, each in a sandbox of its own. */
  readonly #warm: readonly LlmTool[];
  /** Tools of the platform that need no sandbox. */
  readonly #own: readonly LlmTool[];
  readonly #ofServers: McpTools;
  readonly #run: EngineRun;
  readonly #signal: AbortSignal;
  readonly #clock: Clock;
  readonly #openSandbox: () => Promise<SandboxSession>;
  /** For durable runs. */
  readonly #kept: KeptFiles | undefined;
  /** For runs of a session that keeps files. */
  readonly #workspace: WorkspaceFiles | undefined;
  #losses = 0;
  readonly #deps: LoopToolsDeps;
  #web: WebTools | undefined;
  readonly #webCalls: { [tool in WebTool]: number } = { web_search: 0, web_fetch: 0 };
  readonly #costs: ModelCost[] = [];
  #session: Promise<SandboxSession> | undefined;
  #isClosed = false;
  readonly #customByName: ReadonlyMap<string, CustomTool>;
  readonly #custom: CustomTools;
  readonly #files: LoopFiles;

  constructor(deps: LoopToolsDeps, run: EngineRun, signal: AbortSignal, files: LoopFiles) {
    const { custom_tools: custom, loop } = run.agent.definition;
    const allowed = BUILT_IN_TOOLS.filter(({ name }) => loop?.tools?.includes(name) ?? true);
    const builtIn = allowed.filter(({ name }) => name !== 'bash' || !run.isStrict);
    const isWarm = ({ reuse }: CustomTool) => reuse !== undefined;
    this.#inSandbox = [...builtIn, ...custom.filter((tool) => !isWarm(tool)).map(customToolDefinition)];
    this.#warm = custom.filter(isWarm).map(customToolDefinition);
    const sandbox = () => this.#sandbox();
    this.#own = [LATER, ASK_HUMAN, WAIT, EVENT_URL, ...MEMORY_TOOLS, ...WEB_TOOLS].filter(({ name }) =>
      loop?.tools?.includes(name),
    );
    const otherNames = [...this.#inSandbox, ...this.#warm, ...this.#own].map(({ name }) => name).concat(SUBMIT);
    this.#ofServers = new McpTools(deps, run, { signal, files, sandbox, otherNames });
    this.#deps = deps;
    this.#run = run;
    this.#signal = signal;
    this.#clock = deps.clock;
    this.#files = files;
    this.#kept = run.durable && new KeptFiles(deps.clock, run, signal);
    this.#workspace = run.session?.workspace && new WorkspaceFiles(run, signal);
    this.#openSandbox = async () => {
      const workspace = this.#workspace;
      // What a durable run keeps contains the files of its session.
      const isKept = this.#kept?.hasFiles === true;
      const prepare = workspace && !isKept ? (session: SandboxSession) => workspace.restore(session) : undefined;
      const session = await openToolSandbox(deps, run, prepare);
      await this.#kept?.open(session, isKept ? undefined : workspace?.mark);
      // Its files may be unchanged since then, but they are not those of the session.
      const mark = this.#kept?.mark;
      if (isKept) workspace?.resume(mark && { ...mark, state: '' });
      return session;
    };
    this.#customByName = new Map(custom.map((tool) => [tool.name, tool]));
    this.#custom = new CustomTools(sandbox, signal, run);
    this.output = new ToolOutput({
      session: sandbox,
      mask: run.mask,
      canRead: this.#inSandbox.some(({ name }) => name === 'read_file' || name === 'bash'),
      maxFileBytes: deps.config.sandboxDiskBytes / KEPT_PART,
      message: run.session?.number,
    });
  }

  /** Definitions without `submit_result`. They are complete and fixed once the servers are open. */
  get definitions(): LlmTool[] {
    return [...this.#inSandbox, ...this.#warm, ...this.#own, ...this.#ofServers.definitions];
  }

  /** Prepares for a call of `name`, which the model has begun to write. */
  expect(name: string): void {
    const isInSandbox = this.#inSandbox.some((tool) => tool.name === name);
    // A call that may wait opens it when it runs.
    if (isInSandbox && !this.#isClosed && this.approvalOf(name) === undefined) this.#sandbox().catch(() => {});
  }

  /** Opens the agent's MCP servers. Throws what {@link McpTools.open} throws. */
  openServers(): Promise<void> {
    return this.#ofServers.open();
  }

  /** One line per MCP server. */
  get log(): readonly string[] {
    return this.#ofServers.log;
  }

  /**
   * In strict mode, returns the tools that call other agents, one of which must succeed before a result is accepted.
   * Empty
   * once one has succeeded.
   */
  get required(): string[] {
    const { manifest, custom_tools } = this.#run.agent.definition;
    const hasDependencies = (manifest?.dependencies.length ?? 0) > 0;
    if (!this.#run.isStrict || !hasDependencies || this.#custom.hasCalledDependency) return [];
    return custom_tools.filter(({ command }) => callsDependency(command)).map(({ name }) => name);
  }

  /**
   * Calls any tool except `submit_result` and returns the result for the model, truncated in the middle if it is long.
   * Throws
   * errors that end the run: SANDBOX_ERROR if there is no sandbox or it ran out of memory, INTERNAL_ERROR if it was
   * lost.
   *
   * @param at Turn of the call, and its number in the turn.
   */
  async call(call: LlmToolCall, at: CallPlace): Promise<BoundOutcome> {
    return this.output.bound(await this.#call(call, at), at);
  }

  /** What the calls of tools have cost, besides the model. */
  get costs(): readonly ModelCost[] {
    return this.#costs;
  }

  /** Whether a tool that calls another agent has succeeded. */
  get hasCalledDependency(): boolean {
    return this.#custom.hasCalledDependency;
  }

  /**
   * Whether a call that may have had its effect can be made again: it only reads, it writes the same again, or the called
   * agent recognizes it (`docs/interface/durable-runs.md#interruptions`).
   */
  mayRepeat({ name }: LlmToolCall): boolean {
    const custom = this.#customByName.get(name);
    if (custom !== undefined)
      return (custom.interruption ?? (callsDependency(custom.command) ? 'retry' : 'unknown')) === 'retry';
    if (this.#inSandbox.some((tool) => tool.name === name)) return name !== 'bash';
    if (this.#own.some((tool) => tool.name === name)) return true;
    return this.#ofServers.mayRepeat(name);
  }

  /** Returns the definition of a tool; `undefined` if there is no such tool. */
  definitionOf(name: string): LlmTool | undefined {
    return this.definitions.find((tool) => tool.name === name);
  }

  /** Returns which calls of a tool wait for an approval; `undefined` if none do. */
  approvalOf(name: string): Approval | undefined {
    const custom = this.#customByName.get(name);
    if (custom === undefined) return this.#ofServers.approvalOf(name);
    const { dependencies = [] } = this.#run.agent.definition.manifest ?? {};
    const called = calledDependencies(custom.command);
    return custom.approval ?? dependencies.find(({ id, approval }) => approval && called.includes(id))?.approval;
  }

  /** Restores what is known from a turn of another process. */
  restore({ turn, answer, results }: PastTurn): void {
    for (const [call, { outcome }] of results) {
      const { name, input } = answer.toolCalls[call]!;
      const { path } = (input ?? {}) as { [name: string]: Json };
      if (name === 'web_search' || name === 'web_fetch') this.#restoreWeb(name, outcome.isError);
      if (name === 'write_file' && !outcome.isError) this.writtenFiles.add(path as string);
      if (outcome.cut !== undefined) this.output.restore({ turn, number: call + 1 }, outcome.text);
    }
  }

  #restoreWeb(tool: WebTool, isError: boolean): void {
    this.#webCalls[tool] += 1;
    const provider = this.#run.search?.provider;
    if (tool !== 'web_search' || isError || provider === undefined) return;
    this.#costs.push({ provider, model: tool, costUsd: this.#deps.config.searchPrices[provider] });
  }

  /**
   * Prepares a loop that another process began. Returns what the model has to know about its new sandbox; `undefined` if it
   * had none.
   */
  async resume({ hasCalledDependency, files, turns, earlier }: LoopPast): Promise<string | undefined> {
    this.#custom.restore(hasCalledDependency);
    this.#kept?.resume(files);
    const calls = [...earlier, ...turns].flatMap(({ turn, answer }) =>
      answer.toolCalls.map(({ name }) => ({ turn, name })),
    );
    const last = calls.findLast(({ name }) => this.#inSandbox.some((tool) => tool.name === name));
    if (last === undefined) return undefined;
    await this.#sandbox();
    return this.#kept?.notice(last.turn);
  }

  /** Keeps the files of the sandbox after a turn, if it has one. */
  async keepFiles(turn: number, mustKeep: boolean): Promise<void> {
    const session = await this.#session?.catch(() => undefined);
    if (session !== undefined) await this.#kept?.keep(session, turn, mustKeep);
  }

  /** Returns the files for the next message of the session (see {@link WorkspaceFiles.keep}). */
  async keepWorkspace(error?: PlatformError): ReturnType<WorkspaceFiles['keep']> {
    if (this.#workspace === undefined) return {};
    return this.#workspace.keep(await this.#session?.catch(() => undefined), error);
  }

  /**
   * Replaces a lost sandbox of a durable run. Returns what the model has to know. Throws the error if the run has lost too
   * many.
   */
  async replaceSandbox(turn: number, error: unknown): Promise<string | undefined> {
    this.#losses += 1;
    if (this.#losses > MAX_LOSSES) throw error;
    await (await this.#session?.catch(() => undefined))?.close().catch(() => {});
    this.#session = undefined;
    await this.#sandbox();
    return this.#kept?.notice(turn);
  }

  async #call(call: LlmToolCall, at: CallPlace): Promise<ToolOutcome> {
    const ofServer = await this.#ofServers.call(call);
    if (ofServer !== undefined) return ofServer;
    const { name, input } = call;
    const tool = [...this.#inSandbox, ...this.#warm, ...this.#own].find((definition) => definition.name === name);
    if (tool === undefined) return errorOutcome(this.#unknownTool(name));
    const problem = await parameterProblem(this.#run, tool, input);
    if (problem !== undefined) return errorOutcome(problem);
    const parameters = input as Parameters;
    if (tool === LATER)
      return callLater(this.#run, parameters, { requestId: this.#callIdOf(at), now: this.#clock.now() });
    // With parameters that make sense, the run waits instead (`asks.ts`).
    if (tool === WAIT) {
      const wait = waitUntil(parameters, this.#clock.now());
      return errorOutcome('problem' in wait ? wait.problem : 'This run cannot wait.');
    }
    if (tool === EVENT_URL) {
      const url = await (await this.#run.durable!.waits()).eventUrl(parameters.event as string);
      return url === undefined
        ? errorOutcome('This run has addresses for as many events as it may. Use one of those.')
        : outcomeOf(url);
    }
    const ofMemory = MEMORY_TOOLS.find((each) => each === tool);
    if (ofMemory !== undefined) {
      // Loaded lazily: few loops remember, and smaller functions start faster.
      const { callMemoryTool } = await import('./memory-tools.ts');
      return callMemoryTool(this.#run, ofMemory.name, parameters, this.#callIdOf(at));
    }
    const ofWeb = WEB_TOOLS.find((each) => each === tool);
    if (ofWeb !== undefined) return this.#callWeb(ofWeb.name, parameters);
    const custom = this.#customByName.get(name);
    if (custom?.reuse !== undefined) {
      const { callWarmTool } = await warmTools();
      const asked = { tool: custom, parameters, callId: this.#callIdOf(at), signal: this.#signal };
      return callWarmTool(this.#deps, this.#run, asked);
    }
    if (custom !== undefined) return this.#custom.call(custom, parameters, this.#callIdOf(at));
    try {
      return await this.#callBuiltIn(name, parameters, at);
    } catch (error) {
      const isLost = hasCode(error, 'SANDBOX_FILE') && (error as SandboxFileError).isLost;
      if (isLost && this.#run.durable !== undefined) throw interruptedError();
      if (hasCode(error, 'SANDBOX_FILE')) return errorOutcome((error as Error).message);
      throw error;
    }
  }

  async #callWeb(tool: WebTool, parameters: Parameters): Promise<ToolOutcome> {
    // Loaded lazily, too.
    const { MAX_WEB_CALLS, WebTools } = await import('./web-tools.ts');
    this.#web ??= new WebTools({ ...this.#deps, traceHeaders: this.#run.traceHeaders?.() }, this.#run, this.#signal);
    const max = MAX_WEB_CALLS[tool];
    if (this.#webCalls[tool] >= max) return errorOutcome(`A run may call ${tool} ${max} times, and has done so.`);
    this.#webCalls[tool] += 1;
    const outcome = await this.#web.call(tool, parameters);
    if (outcome.cost !== undefined) this.#costs.push(outcome.cost);
    return outcome;
  }

  /** Closes the sandbox with everything that still runs in it, and the sessions with servers. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const closed = this.#ofServers.close();
    const session = await this.#session?.catch(() => undefined);
    await session?.close();
    await closed;
  }

  #sandbox(): Promise<SandboxSession> {
    this.#session ??= this.#isClosed
      ? Promise.reject(this.#signal.reason ?? new Error('the loop has ended'))
      : this.#openSandbox();
    return this.#session;
  }

  /** The same whenever the call is made again; only durable runs make one again. */
  #callIdOf({ turn, number }: CallPlace): string | undefined {
    const { durable, runId } = this.#run;
    return durable && `${runId}:${turn}.${number}`;
  }

  async #callBuiltIn(name: string, parameters: Parameters, at: CallPlace): Promise<ToolOutcome> {
    const session = await this.#sandbox();
    const { command, path, content, recursive } = parameters;
    switch (name) {
      case 'bash':
        return commandOutcome(
          await runToolCommand(session, {
            command: withCallId(this.#callIdOf(at), command as string),
            signal: this.#signal,
          }),
        );
      case 'read_file':
        return this.#readFile(session, path as string, parameters as ReadPlace);
      case 'write_file':
        return outcomeOf(await this.#write(session, path as string, content as string));
      default:
        return outcomeOf(await listFiles(session, (path as string) ?? '.', recursive === true));
    }
  }

  async #readFile(session: SandboxSession, path: string, place: ReadPlace): Promise<ToolOutcome> {
    const content = await readFile(session, path, place);
    return typeof content === 'string' ? outcomeOf(content) : { ...this.#files.show(content), isError: false };
  }

  async #write(session: SandboxSession, path: string, content: string): Promise<string> {
    const text = await writeFile(session, path, content);
    this.writtenFiles.add(path);
    return text;
  }

  #unknownTool(name: string): string {
    if (name === 'bash' && this.#run.isStrict) {
      return 'STRICT_MODE_BASH_DISABLED: this agent runs in strict mode, in which there is no bash.';
    }
    const names = [...this.definitions.map((tool) => tool.name), SUBMIT];
    return `There is no tool "${name}". The tools are ${names.join(', ')}: call one of these.`;
  }
}
