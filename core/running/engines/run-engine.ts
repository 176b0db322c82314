import { isPlatformError, shownError } from '#core/base/errors.ts';
import { lazy } from '#core/base/lazy.ts';
import type { Deps } from '#core/ports/deps.ts';
import type { EngineResult, EngineRun } from './engine.ts';

/** An engine is loaded when it is needed: the cold start of other agents need not wait for it. */
const engines = {
  code: lazy(() => import('./code-runtime.ts')),
  readiness: lazy(() => import('./readiness.ts')),
  prompt: lazy(() => import('./direct-llm.ts')),
  loop: lazy(() => import('./managed-loop.ts')),
};

/** Runs an agent with its engine. Never throws: every failure is in the result, so that the run gets recorded. */
export async function runEngine(deps: Deps, run: EngineRun): Promise<EngineResult> {
  const startedAt = deps.clock.now();
  try {
    return await engineOf(deps, run);
  } catch (error) {
    if (!isPlatformError(error)) deps.log.error('engine failed', { run_id: run.runId, error: String(error) });
    return {
      error: shownError(error, 'The platform failed to run the agent.'),
      warnings: [],
      stdout: '',
      stderr: '',
      exitCode: null,
      executionMs: deps.clock.now() - startedAt,
    };
  }
}

async function engineOf(deps: Deps, run: EngineRun): Promise<EngineResult> {
  const { agent } = run;
  switch (agent.definition.execution_engine) {
    case 'code_runtime': {
      const [{ runCode }, { readyToRun }] = await Promise.all([engines.code(), engines.readiness()]);
      return runCode(deps, { ...run, agent: await readyToRun(deps, agent, run) });
    }
    case 'direct_llm': {
      const { runPrompt } = await engines.prompt();
      return runPrompt(deps, run);
    }
    case 'managed_loop': {
      const { runLoop } = await engines.loop();
      return runLoop(deps, run);
    }
    default:
      throw new Error('a skill is not called');
  }
}
