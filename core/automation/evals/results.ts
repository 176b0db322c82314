import type * as z from 'zod';
import type { Json } from '#core/base/json.ts';
import { plainOutput } from '#core/manifest/evals/check-output.ts';
import { type Assert, nameOfAssert } from '#core/manifest/evals/suite.ts';
import type { Deps } from '#core/ports/deps.ts';
import { RunStore } from '#core/runs/store.ts';
import type { Evaluation } from './eval.ts';
import type { evalRoutes } from './routes.ts';
import { EvalStore } from './store.ts';

type Results = z.output<(typeof evalRoutes)[5]['response'][200]>;
type Result = Results['results']['results'][number];

/** Cases that are read at once. */
const CASES_AT_ONCE = 50;
/** Characters of all outputs together: an answer of the API has a maximum size. Later outputs are cut. */
const MAX_OUTPUT_CHARACTERS = 2_000_000;

/** Returns the results of an evaluation in promptfoo's form (promptfoo.dev/docs/configuration/outputs), version 3. */
export async function resultsOf(
  deps: Pick<Deps, 'runs' | 'blobs' | 'clock' | 'config'>,
  evaluation: Evaluation,
): Promise<Results> {
  const { id, workspaceId, versions, agentName } = evaluation;
  const store = new EvalStore(deps, workspaceId);
  const runs = new RunStore(deps, workspaceId);
  const results: Result[] = [];
  const stats = { successes: 0, failures: 0, errors: 0 };
  let room = MAX_OUTPUT_CHARACTERS;
  for (let from = 0; from < evaluation.cases; from += CASES_AT_ONCE) {
    for (const { case: each, slots } of await store.cases(id, { from, limit: CASES_AT_ONCE })) {
      const vars = each.vars as Result['vars'];
      const testCase = { description: each.description, vars, assert: each.asserts.map(assertionOf) };
      for (const { lane, repeat, runId, version, result } of slots) {
        if (result === undefined) continue;
        // A recorded run without a version is none of this agent.
        const body = lane === 'observed' && version === undefined ? undefined : await runs.body(runId);
        const output = plainOutput(body?.output ?? null);
        const length = JSON.stringify(output).length;
        room -= length;
        const { outcome, score, reason, asserts, latencyMs, costUsd } = result;
        stats[outcome === 'passed' ? 'successes' : outcome === 'failed' ? 'failures' : 'errors']++;
        results.push({
          vars,
          provider: { id: lane === 'observed' ? `${agentName} observed` : `${agentName}@${versions[lane]!.name}` },
          response: { output: room < 0 ? `[cut: ${length} characters, see the run]` : output },
          error: outcome === 'passed' || outcome === 'failed' ? null : reason,
          success: outcome === 'passed',
          score,
          latencyMs: latencyMs ?? 0,
          cost: costUsd ?? 0,
          testIdx: each.number,
          gradingResult: {
            pass: outcome === 'passed',
            score,
            reason: reason ?? 'All assertions passed',
            componentResults: asserts.map((assert, index) => ({
              pass: assert.pass,
              score: assert.score,
              reason: assert.reason,
              assertion: assertionOf(each.asserts[index]!),
            })),
          },
          testCase,
          metadata: { run_id: runId, lane, repeat },
        });
      }
    }
  }
  const timestamp = evaluation.endedAt ?? evaluation.updatedAt;
  return { evalId: id, results: { version: 3, timestamp, stats, results } };
}

/** Writes an assert as in its file. */
const assertionOf = (assert: Assert): { [member: string]: Json } => {
  const { isNot, weight, type, ...rest } = assert;
  return { type: nameOfAssert({ type, isNot }), ...rest, ...(weight !== 1 && { weight }) };
};
