import { useWorkspace } from '../../../api/session.ts';
import { Money } from '../../../ui/data/numbers.tsx';
import { Duration } from '../../../ui/data/time.tsx';
import { Link } from '../../../ui/link.tsx';
import { Code } from '../../../ui/text/code.tsx';
import { escapeText } from '../../../ui/text/escape-text.ts';
import { JsonView } from '../../../ui/text/viewer.tsx';
import { type CaseRun, type EvalCase, laneText, scoreOf, scoreText } from './evaluation.ts';
import { Mark } from './mark.tsx';

/** Reason of an assert that passed. */
const NOTHING_TO_SAY = 'passed';

/** The runs of a case with the results of all asserts, and its input. */
export function CaseDetails({ of: { number, runs, vars } }: { readonly of: EvalCase }) {
  return (
    <div className="grid min-w-0 gap-4 lg:grid-cols-[3fr_2fr]">
      <div className="min-w-0">
        <h3 className="mb-1 font-medium">Results</h3>
        {runs.length === 0 && <p className="text-soft">No run of this case has begun.</p>}
        <ul aria-label={`Results of case ${number}`} className="flex min-w-0 flex-col gap-3">
          {runs.map((run) => (
            <li key={run.run_id} className="min-w-0">
              <RunResult run={run} />
            </li>
          ))}
        </ul>
      </div>
      <div className="min-w-0">
        <h3 className="mb-1 font-medium">Input</h3>
        <JsonView value={vars} name={`case-${number}`} />
      </div>
    </div>
  );
}

function RunResult({ run }: { readonly run: CaseRun }) {
  const { slug: workspace } = useWorkspace();
  const { repeat, status, reason, latency_ms, cost_usd, asserts } = run;
  const score = scoreOf(run);
  return (
    <>
      <p className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <Link to="/$workspace/runs/$run" params={{ workspace, run: run.run_id }}>
          {laneText(run)}, run {repeat}
        </Link>
        <Mark outcome={status} isWordShown />
        {score !== undefined && <span>score {score}</span>}
        {latency_ms !== null && <Duration ms={latency_ms} />}
        {cost_usd !== null && <Money usd={cost_usd} />}
      </p>
      {/* Those of asserts are with the asserts. */}
      {asserts.every(({ pass }) => pass) && reason !== null && <p className="text-soft">{escapeText(reason)}</p>}
      <ul className="mt-1 flex min-w-0 flex-col gap-1 border-l-2 border-line pl-3">
        {asserts.map((assert, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a case may have an assert twice, and they do not move.
          <li key={index} className="flex min-w-0 items-start gap-2">
            <span className="mt-0.5">
              <Mark outcome={assert.pass ? 'passed' : 'failed'} />
            </span>
            <div className="min-w-0">
              <span className="flex flex-wrap items-center gap-x-2">
                <Code>{escapeText(assert.type)}</Code>
                {assert.metric !== null && <span className="font-medium">{escapeText(assert.metric)}</span>}
                <span className="text-soft">score {scoreText(assert.score)}</span>
                {assert.judge_run_id !== null && (
                  <Link to="/$workspace/runs/$run" params={{ workspace, run: assert.judge_run_id }}>
                    Run of the judge
                  </Link>
                )}
              </span>
              {assert.reason !== NOTHING_TO_SAY && <p className="text-soft">{escapeText(assert.reason)}</p>}
            </div>
          </li>
        ))}
      </ul>
    </>
  );
}
