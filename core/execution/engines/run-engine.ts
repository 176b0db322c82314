import { isPlatformError, shownError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import type { ExecutionEngine } from '#core/manifest/definition.ts';
import type { Deps } from '#core/ports/deps.ts';
import { isRunContinues } from '#core/runs/run-continues.ts';
import type { EngineResult, EngineRun } from './engine.ts';

type Engine = (deps: Deps, run: EngineRun) => Promise<EngineResult>;

/** Engines are loaded on first use, so that they do not delay the cold start of other agents. */
const ENGINES: { readonly [Name in ExecutionEngine]: () => Promise<Engine> } = {
  direct_llm: lazy(async () => (await import('./direct-llm.ts')).runPrompt),
  code_runtime: lazy(async () => {
    const [{ runCode }, { readyToRun }] = await Promise.all([import('./code-runtime.ts'), import('./readiness.ts')]);
    return async (deps, run) => runCode(deps, { ...run, agent: await readyToRun(deps, run.agent, run) });
  }),
  managed_loop: lazy(async () => {
    const [{ runLoop }, { readyToRun }] = await Promise.all([import('./managed-loop.ts'), import('./readiness.ts')]);
    return async (deps, run) =>
      runLoop(deps, run.agent.runnable ? run : { ...run, agent: await readyToRun(deps, run.agent, run) });
  }),
};

/** Runs an agent with its engine. Never throws: every failure is in the result, so that the run is recorded. */
export async function runEngine(deps: Deps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  try {
    const name = run.agent.definition.execution_engine;
    if (name === null) throw new Error('a skill is not called');
    const engine = await ENGINES[name]();
    return await engine(deps, run);
  } catch (error) {
    const continues = isRunContinues(error) ? error : undefined;
    if (!isPlatformError(error) && continues === undefined)
      deps.log.error('engine failed', { run_id: run.runId, error: String(error) });
    return {
      ...(continues && { continues }),
      error: shownError(error, 'The platform failed to run the agent.'),
      warnings: [],
      stdout: '',
      stderr: '',
      exitCode: null,
      executionMs: deps.clock.now() - startedAt,
    };
  }
}
