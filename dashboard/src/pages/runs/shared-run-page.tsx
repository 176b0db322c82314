import { getRouteApi } from '@tanstack/react-router';
import { Printer } from 'lucide-react';
import type { ReactNode } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAllRows, useOperation } from '../../api/query.ts';
import { isUnderWay } from '../../api/run-status.ts';
import { isNotFound } from '../../api-error.ts';
import { Button } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { type Column, Table } from '../../ui/data/table.tsx';
import { absoluteTime, Duration, duration, Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { FactsRow, Page, Section } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { JsonView } from '../../ui/text/viewer.tsx';
import { Turns } from './conversation.tsx';
import { stepName } from './lines.ts';

const POLL_MS = 5_000;

type Run = AnswerOf<'getSharedRun'>['run'];
type Step = AnswerOf<'listSharedRunSteps'>['steps'][number];

/** The run of a link, read-only, for visitors without an account. */
export function SharedRunPage() {
  const { token } = getRouteApi('/share/$token').useParams();
  const { data, error, refetch } = useOperation(
    'getSharedRun',
    { params: { share: token } },
    { refetchInterval: ({ state }) => (isUnderWay(state.data?.run.status) ? POLL_MS : false) },
  );
  return (
    <main id="page" tabIndex={-1} className="min-w-0 outline-none">
      {error ? (
        <Page title="Shared run">
          {isNotFound(error) ? (
            <p role="alert">{error.message}</p>
          ) : (
            <ErrorBox error={error} onRetry={() => void refetch()} />
          )}
        </Page>
      ) : (
        (data && <SharedRun token={token} run={data.run} expiresAt={data.expires_at} />) || (
          <Page title="Shared run">
            <Loading />
          </Page>
        )
      )}
    </main>
  );
}

function SharedRun({
  token,
  run,
  expiresAt,
}: {
  readonly token: string;
  readonly run: Run;
  readonly expiresAt: string;
}) {
  const name = `run-${run.id.slice(0, 8)}`;
  return (
    <Page
      title={`Run of ${escapeText(run.agent_name)}@${run.agent_version}`}
      description={
        <>
          Read-only. This link expires <Time at={expiresAt} />.
        </>
      }
      actions={
        <div className="print:hidden">
          <Button icon={Printer} onPress={() => print()}>
            Print
          </Button>
        </div>
      }
    >
      <FactsRow facts={factsOf(run)} />
      {run.error_message !== null && (
        <section aria-label="Error" className="rounded-lg border border-line bg-bad-ground p-3">
          <p className="break-words whitespace-pre-wrap">
            <span className="font-medium">{run.error_code}</span>: {escapeText(run.error_message.slice(0, 4_000))}
          </p>
        </section>
      )}
      <Section title="Input" isFramed={false}>
        <JsonView value={run.input_data} name={`${name}-input`} />
      </Section>
      {!isUnderWay(run.status) && (
        <Section title="Output" isFramed={false}>
          <JsonView value={run.output_data} name={`${name}-output`} />
        </Section>
      )}
      <Steps token={token} run={run} name={name} />
    </Page>
  );
}

function factsOf(run: Run): (readonly [name: string, value: ReactNode])[] {
  const tokens = (run.input_tokens ?? 0) + (run.output_tokens ?? 0);
  return [
    ['Status', <Status key="status" value={run.status} />],
    ['Started', absoluteTime(Date.parse(run.created_at))],
    ['Duration', <Duration key="took" ms={run.duration_ms} />],
    ...(run.llm_model === null ? [] : [['Model', escapeText(run.llm_model)] as const]),
    ...(tokens === 0
      ? []
      : [['Tokens', `${count(run.input_tokens ?? 0)} in, ${count(run.output_tokens ?? 0)} out`] as const]),
    [
      'Run ID',
      <span key="id" className="font-mono text-xs break-all">
        {run.id}
      </span>,
    ],
  ];
}

function Steps({ token, run, name }: { readonly token: string; readonly run: Run; readonly name: string }) {
  const isRunning = isUnderWay(run.status);
  const { data, error, refetch } = useOperation(
    'listSharedRunSteps',
    { params: { share: token } },
    { refetchInterval: isRunning ? POLL_MS : false },
  );
  if (error) return <ErrorBox error={error} onRetry={() => void refetch()} />;
  if (!data) return <Loading />;
  return (
    <>
      {data.steps.length > 0 && (
        <Section title="Steps" isFramed={false}>
          <Table
            label="Steps"
            columns={columnsOf(run)}
            rows={data.steps.map((step, index) => ({ ...step, index }))}
            keyOf={({ index }) => String(index)}
          />
        </Section>
      )}
      {data.has_content && !isRunning && <Messages token={token} name={name} />}
    </>
  );
}

const columnsOf = (run: Run): readonly Column<Step>[] => [
  { title: 'Step', cell: (step) => escapeText(stepName(step)) },
  { title: 'Status', cell: ({ status }) => (status === 'event' ? null : <Status value={stepStatus(status)} />) },
  {
    title: 'Start',
    isNumber: true,
    from: 'sm',
    cell: ({ started_at }) => `+${duration(Math.max(0, Date.parse(started_at) - Date.parse(run.created_at)))}`,
  },
  { title: 'Duration', isNumber: true, cell: ({ duration_ms }) => <Duration ms={duration_ms} /> },
  {
    title: 'Tokens',
    isNumber: true,
    from: 'sm',
    cell: ({ token_input = 0, token_output = 0 }) =>
      token_input + token_output === 0 ? '' : count(token_input + token_output),
  },
];

/** Steps that succeeded have the status of runs that did. */
const stepStatus = (status: Step['status']): string => (status === 'succeeded' ? 'completed' : status);

function Messages({ token, name }: { readonly token: string; readonly name: string }) {
  const { rows, error, isWhole } = useAllRows('listSharedRunEvents', {
    args: (cursor) => ({ params: { share: token }, query: { cursor } }),
    rowsOf: ({ events }) => events,
    nextOf: ({ next_cursor }) => next_cursor ?? undefined,
    staleTime: 60_000,
  });
  if (error && !rows) return <ErrorBox error={error} />;
  if (!rows) return <Loading />;
  return <Turns events={rows} name={name} isWhole={isWhole} />;
}
