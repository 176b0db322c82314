import { type ReactNode, useState } from 'react';
import { useOperation } from '../../api/query.ts';
import { isInEvents } from '../../api/run-status.ts';
import { useWorkspace } from '../../api/session.ts';
import { Arguments, DecidedView } from '../../approvals/approval-parts.tsx';
import { isForPeople } from '../../approvals/waiting.ts';
import { useLive } from '../../live/use-live.ts';
import { count, Money } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { absoluteTime, Duration, duration, Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { JsonView, TextView } from '../../ui/text/viewer.tsx';
import { Hinted } from '../../ui/tooltip.tsx';
import { type Content, Contents, Part } from './contents.tsx';
import { Conversation } from './conversation.tsx';
import type { Line } from './lines.ts';
import type { RunParams } from './run-params.ts';
import type { Wait } from './waits.ts';

/** Details of a line, with its messages if the workspace stores trace content. */
export function SpanDetails({
  line,
  start,
  params: { workspace_id, run_id },
}: {
  readonly line: Line;
  /** Start of the chain in epoch milliseconds. */
  readonly start: number;
  readonly params: RunParams;
}) {
  const { run, step } = line;
  const { slug } = useWorkspace();
  const about = step ?? run;
  // The page shows the error of its own run.
  const isPageRun = !step && run.run_id === run_id;
  const tokens: readonly (readonly [string, number | null | undefined])[] = step
    ? [
        ['in', step.token_input],
        ['out', step.token_output],
        ['from cache', step.cache_read_tokens],
        ['written to cache', step.cache_write_tokens],
      ]
    : [
        ['in', run.input_tokens],
        ['out', run.output_tokens],
      ];
  const known = tokens.filter(([, number]) => number != null && number > 0);
  const model = step ? step.model : run.llm_model;
  const cost = step ? step.cost_usd : run.cost_usd;
  const facts: (readonly [string, ReactNode])[] = [
    ['Status', <Status key="state" value={line.status === 'succeeded' ? 'completed' : line.status} />],
    [
      'Started',
      <Hinted key="started" text={() => absoluteTime(line.from)}>
        <time dateTime={new Date(line.from).toISOString()}>+{duration(Math.max(0, line.from - start))}</time>
      </Hinted>,
    ],
    ['Duration', <Duration key="took" ms={line.to - line.from} />],
    ...(model ? [['Model', escapeText(model)] as const] : []),
    ...(known.length > 0
      ? [['Tokens', known.map(([what, number]) => `${count(number!)} ${what}`).join(', ')] as const]
      : []),
    ...(cost == null ? [] : [['Provider cost', <Money key="cost" usd={cost} />] as const]),
    ...(run.run_id === run_id
      ? []
      : [
          [
            'Run',
            <Link key="run" to="/$workspace/runs/$run" params={{ workspace: slug, run: run.run_id }}>
              {`${run.agent_name}@${run.agent_version} ${run.run_id.slice(0, 8)}`}
            </Link>,
          ] as const,
        ]),
  ];
  const payload = step && Object.keys(step.payload).length > 0 ? step.payload : undefined;
  return (
    <Section title={escapeText(line.name)}>
      <div className="flex min-w-0 flex-col gap-4">
        <Facts facts={facts} />
        {about.error_message && !isPageRun && (
          <Part title={step ? 'Error' : `Error ${run.error_code}`}>
            <TextView text={about.error_message} name={`${line.id}-error`} />
          </Part>
        )}
        {line.wait && <WaitDetails wait={line.wait} workspaceId={workspace_id} />}
        {payload && !line.wait && (
          <Part title="Details">
            <JsonView value={payload} name={line.id} />
          </Part>
        )}
        {!step && <Conversation run={run} workspaceId={workspace_id} />}
        {step?.span_id !== undefined &&
          (isInEvents(run.status) ? (
            <LiveStepContent line={line} workspaceId={workspace_id} />
          ) : (
            <StepContent line={line} workspaceId={workspace_id} />
          ))}
      </div>
    </Section>
  );
}

/** What a call of a tool waited for, and who decided what. */
function WaitDetails({ wait, workspaceId }: { readonly wait: Wait; readonly workspaceId: string }) {
  const params = { workspace_id: workspaceId, approval_id: wait.id };
  const { data, error } = useOperation('getApproval', { params });
  if (error) return <ErrorBox error={error} />;
  if (!data) return <Loading />;
  const { question, status, expires_at } = data;
  return (
    <>
      {question !== null && (
        <Part title="Question">
          <TextView text={question} name={`question-${wait.id}`} />
        </Part>
      )}
      {data.kind !== 'answer' && (
        <Part title="Arguments">
          <Arguments value={data.arguments} name={`arguments-${wait.id}`} />
        </Part>
      )}
      <Part title={isForPeople(data) ? 'Decision' : 'End'}>
        {status === 'waiting' ? (
          <p>
            {isForPeople(data) ? 'Not yet: it expires' : 'Not yet: it ends'} <Time at={expires_at} />.
          </p>
        ) : (
          <DecidedView approval={data} />
        )}
      </Part>
    </>
  );
}

interface StepContentProps {
  readonly line: Line;
  readonly workspaceId: string;
}

/** Messages, arguments and result of a step. */
function StepContent({ line: { id, run, step }, workspaceId }: StepContentProps) {
  const { data, error } = useOperation(
    'listTraceEvents',
    {
      params: { workspace_id: workspaceId, trace_id: run.run_id },
      query: { content: 'true', span_id: step!.span_id },
    },
    { enabled: run.has_content, staleTime: 60_000 },
  );
  if (!run.has_content) {
    return (
      <p className="text-soft">
        Messages are not stored. An owner can turn this on for future runs: platform workspace update --trace-content
        all
      </p>
    );
  }
  if (error) return <ErrorBox error={error} />;
  if (!data) return <Loading />;
  return data.events.flatMap(({ content, sequence_no }) =>
    content ? [<Contents key={sequence_no} content={content} name={`${id}-${sequence_no}`} />] : [],
  );
}

/** The same contents for a step of a running run, read from its events. */
function LiveStepContent({ line: { id, run, step }, workspaceId }: StepContentProps) {
  const [contents, setContents] = useState<readonly Content[]>([]);
  useLive({
    name: 'listRunEvents',
    args: { params: { workspace_id: workspaceId, run_id: run.run_id } },
    onEvent: ({ type, data: { span_id, content } }) => {
      if (type === 'trace' && span_id === step!.span_id && content) setContents((old) => [...old, content as Content]);
    },
  });
  if (contents.length === 0) {
    return (
      <p className="text-soft">
        No messages yet. They appear when the run has ended, if the workspace stores trace content; with the setting
        "all", they appear live.
      </p>
    );
  }
  return contents.map((content, number) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: they never change their places.
    <Contents key={number} content={content} name={`${id}-${number}`} />
  ));
}
