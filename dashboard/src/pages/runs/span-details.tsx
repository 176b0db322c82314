import { type ReactNode, useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { useLive } from '../../live/use-live.ts';
import { bytes, count, Money } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Duration, duration, Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Link } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { escapeText, JsonView, TextView } from '../../ui/text/viewer.tsx';
import type { Line } from './lines.ts';
import type { RunParams } from './run-params.ts';

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
  const tokens: readonly (readonly [string, number | null | undefined])[] = step
    ? [
        ['in', step.token_input],
        ['out', step.token_output],
        ['read from a cache', step.cache_read_tokens],
        ['written to a cache', step.cache_write_tokens],
      ]
    : [
        ['in', run.input_tokens],
        ['out', run.output_tokens],
      ];
  const known = tokens.filter(([, number]) => number != null && number > 0);
  const model = step ? step.model : run.llm_model;
  const cost = step ? step.cost_usd : run.cost_usd;
  const facts: (readonly [string, ReactNode])[] = [
    ['State', <Status key="state" value={line.status === 'succeeded' ? 'completed' : line.status} />],
    [
      'Began',
      <span key="began">
        +{duration(Math.max(0, line.from - start))} · <Time at={line.from} />
      </span>,
    ],
    ['Took', <Duration key="took" ms={line.to - line.from} />],
    ...(model ? [['Model', escapeText(model)] as const] : []),
    ...(known.length > 0
      ? [['Tokens', known.map(([what, number]) => `${count(number!)} ${what}`).join(', ')] as const]
      : []),
    ...(cost == null ? [] : [['Cost at the provider', <Money key="cost" usd={cost} />] as const]),
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
        {about.error_message && (
          <Part title={step ? 'Error' : `Error ${run.error_code}`}>
            <TextView text={about.error_message} name={`${line.id}-error`} />
          </Part>
        )}
        {payload && (
          <Part title="About it">
            <JsonView value={payload} name={line.id} />
          </Part>
        )}
        {step?.span_id !== undefined &&
          (run.status === 'running' ? (
            <SaidSoFar line={line} workspaceId={workspace_id} />
          ) : (
            <Said line={line} workspaceId={workspace_id} />
          ))}
      </div>
    </Section>
  );
}

const Part = ({ title, children }: { readonly title: string; readonly children: ReactNode }) => (
  <div className="flex min-w-0 flex-col gap-1">
    <h3 className="font-medium">{title}</h3>
    {children}
  </div>
);

type Content = NonNullable<AnswerOf<'listTraceEvents'>['events'][number]['content']>;
interface SaidProps {
  readonly line: Line;
  readonly workspaceId: string;
}

/** Messages, arguments and result of a step. */
function Said({ line: { id, run, step }, workspaceId }: SaidProps) {
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
        What was said is not kept. An owner can change that for runs from now on: platform workspace update
        --trace-content all
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
function SaidSoFar({ line: { id, run, step }, workspaceId }: SaidProps) {
  const [told, setTold] = useState<readonly Content[]>([]);
  useLive({
    name: 'listRunEvents',
    args: { params: { workspace_id: workspaceId, run_id: run.run_id } },
    onEvent: ({ type, data: { span_id, content } }) => {
      if (type === 'trace' && span_id === step!.span_id && content) setTold((old) => [...old, content as Content]);
    },
  });
  if (told.length === 0) {
    return (
      <p className="text-soft">
        What is said in it is shown when the run has ended, if the workspace keeps it; meanwhile, too, if it keeps that
        of all runs.
      </p>
    );
  }
  return told.map((content, number) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: they never change their places.
    <Contents key={number} content={content} name={`${id}-${number}`} />
  ));
}

/** Contents of one event of a step: the start has the request, the end the response. */
function Contents({
  content: { messages = [], left_out = 0, arguments: given, result },
  name,
}: {
  readonly content: Content;
  /** Name of downloaded files. */
  readonly name: string;
}) {
  return (
    <>
      {left_out > 0 && <p className="text-soft">{`${count(left_out)} older messages are not kept.`}</p>}
      {messages.map((message, index) => (
        <Part
          // biome-ignore lint/suspicious/noArrayIndexKey: they never change their places.
          key={index}
          title={`${WORDS[message.role]}${message.tool_name ? ` ${escapeText(message.tool_name)}` : ''}${message.is_error ? ' (error)' : ''}`}
        >
          <TextOrJson text={message.text} name={`${name}-${index}`} />
          {(message.files ?? []).map((file) => (
            <p key={file.name} className="text-soft">
              {escapeText(file.name)} · {file.media_type} · {bytes(file.bytes)}
            </p>
          ))}
        </Part>
      ))}
      {given && (
        <Part title="Arguments">
          <TextOrJson text={given.text} name={`${name}-arguments`} />
        </Part>
      )}
      {result && (
        <Part title="Result">
          <TextOrJson text={result.text} name={`${name}-result`} />
        </Part>
      )}
    </>
  );
}

const WORDS = { system: 'System', user: 'User', assistant: 'Assistant', tool_call: 'Call of', tool: 'Result of' };

/** Text, shown as JSON if it parses. */
function TextOrJson({ text, name }: { readonly text: string; readonly name: string }) {
  if (!/^\s*[{[]/.test(text)) return <TextView text={text} name={name} />;
  try {
    return <JsonView value={JSON.parse(text)} name={name} />;
  } catch {
    return <TextView text={text} name={name} />;
  }
}
