import type { CustomTool } from '#core/agents/definition.ts';
import { callsDependency } from '#core/agents/manifest/orchestration.ts';
import { hasCode } from '#core/base/errors.ts';
import type { Json } from '#core/base/json.ts';
import type { LlmTool, LlmToolCall } from '#core/ports/llm.ts';
import type { SandboxSession } from '#core/ports/sandbox.ts';
import type { EngineRun } from '../engine.ts';
import { CustomTools } from './custom-tools.ts';
import { listFiles, readFile, writeFile } from './file-tools.ts';
import { SUBMIT } from './submit.ts';
import { BUILT_IN_TOOLS, customToolDefinition, parameterProblem } from './tool-definitions.ts';
import { commandOutcome, errorOutcome, outcomeOf, type ToolOutcome } from './tool-outcome.ts';
import { openToolSandbox, runToolCommand, type ToolSandboxDeps } from './tool-sandbox.ts';

type Parameters = { readonly [name: string]: Json };

/**
 * The tools of one run that work in its sandbox (`docs/interface/loops.md`): all but `submit_result`. The sandbox is
 * opened at once, to be ready at the model's first answer; only the first tool waits for it.
 */
export class LoopTools {
  /** Without `submit_result`. */
  readonly definitions: readonly LlmTool[];
  readonly #run: EngineRun;
  readonly #signal: AbortSignal;
  readonly #session: Promise<SandboxSession>;
  readonly #customByName: ReadonlyMap<string, CustomTool>;
  readonly #custom: CustomTools;

  constructor(deps: ToolSandboxDeps, run: EngineRun, signal: AbortSignal) {
    const { custom_tools: custom } = run.agent.definition;
    const builtIn = BUILT_IN_TOOLS.filter(({ name }) => name !== 'bash' || !run.isStrict);
    this.definitions = [...builtIn, ...custom.map(customToolDefinition)];
    this.#run = run;
    this.#signal = signal;
    this.#session = openToolSandbox(deps, run);
    this.#session.catch(() => {});
    this.#customByName = new Map(custom.map((tool) => [tool.name, tool]));
    this.#custom = new CustomTools(this.#session, signal);
  }

  /**
   * In strict mode, the tools that call other agents: one of them must succeed before a result is accepted. Empty once
   * one did.
   */
  get required(): string[] {
    const { manifest, custom_tools } = this.#run.agent.definition;
    const hasDependencies = (manifest?.dependencies.length ?? 0) > 0;
    if (!this.#run.isStrict || !hasDependencies || this.#custom.hasCalledDependency) return [];
    return custom_tools.filter(({ command }) => callsDependency(command)).map(({ name }) => name);
  }

  /**
   * Calls any tool but `submit_result` and returns the result for the model. Throws what ends the run: SANDBOX_ERROR if
   * there is no sandbox or it ran out of memory, INTERNAL_ERROR if it was lost.
   */
  async call({ name, input }: LlmToolCall): Promise<ToolOutcome> {
    const tool = this.definitions.find((definition) => definition.name === name);
    if (tool === undefined) return errorOutcome(this.#unknownTool(name));
    const problem = parameterProblem(tool, input);
    if (problem !== undefined) return errorOutcome(problem);
    const parameters = input as Parameters;
    const custom = this.#customByName.get(name);
    if (custom !== undefined) return this.#custom.call(custom, parameters);
    try {
      return await this.#callBuiltIn(name, parameters);
    } catch (error) {
      if (hasCode(error, 'SANDBOX_FILE')) return errorOutcome((error as Error).message);
      throw error;
    }
  }

  /** Ends the sandbox and everything that still runs in it. */
  async close(): Promise<void> {
    const session = await this.#session.catch(() => undefined);
    await session?.close();
  }

  async #callBuiltIn(name: string, parameters: Parameters): Promise<ToolOutcome> {
    const session = await this.#session;
    const { command, path, content, recursive } = parameters;
    switch (name) {
      case 'bash':
        return commandOutcome(await runToolCommand(session, { command: command as string, signal: this.#signal }));
      case 'read_file':
        return outcomeOf(await readFile(session, path as string));
      case 'write_file':
        return outcomeOf(await writeFile(session, path as string, content as string));
      default:
        return outcomeOf(await listFiles(session, (path as string) ?? '.', recursive === true));
    }
  }

  #unknownTool(name: string): string {
    if (name === 'bash') {
      return 'STRICT_MODE_BASH_DISABLED: this agent runs in strict mode, in which there is no bash.';
    }
    const names = [...this.definitions.map((tool) => tool.name), SUBMIT];
    return `There is no tool "${name}". The tools are ${names.join(', ')}.`;
  }
}
