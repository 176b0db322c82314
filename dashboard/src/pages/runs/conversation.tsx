import { useState } from 'react';
import { useAllRows } from '../../api/query.ts';
import { isInEvents } from '../../api/run-status.ts';
import { useLive } from '../../live/use-live.ts';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { type Content, Contents } from './contents.tsx';
import type { WaterfallRun } from './lines.ts';

interface ConversationProps {
  readonly run: WaterfallRun;
  readonly workspaceId: string;
}

/** Messages, tool calls and results of a run in their order, read like a conversation, as they come while it runs. */
export const Conversation = (props: ConversationProps) =>
  isInEvents(props.run.status) ? <LiveConversation {...props} /> : <StoredConversation {...props} />;

function LiveConversation({ run: { run_id }, workspaceId }: ConversationProps) {
  const [events, setEvents] = useState<readonly Turn[]>([]);
  useLive({
    name: 'listRunEvents',
    args: { params: { workspace_id: workspaceId, run_id } },
    onEvent: ({ type, data: { content } }) => {
      if (type !== 'trace' || !content) return;
      setEvents((old) => [...old, { sequence_no: old.length, content: content as Content }]);
    },
  });
  return <Turns events={events} name={run_id} isWhole />;
}

function StoredConversation({ run, workspaceId }: ConversationProps) {
  const { rows, error, isWhole } = useAllRows('listTraceEvents', {
    args: (cursor) => ({
      params: { workspace_id: workspaceId, trace_id: run.run_id },
      query: { content: 'true', cursor },
    }),
    rowsOf: ({ events }) => events,
    nextOf: ({ next_cursor }) => next_cursor ?? undefined,
    enabled: run.has_content,
    staleTime: 60_000,
  });
  if (!run.has_content) return null;
  if (error && !rows) return <ErrorBox error={error} />;
  if (!rows) return <Loading />;
  return <Turns events={rows} name={run.run_id} isWhole={isWhole} />;
}

type Turn = Readonly<{ sequence_no: number; content?: Content }>;

/** Contents of the events of a run, in their order. */
export function Turns({
  events,
  name,
  isWhole,
}: {
  readonly events: readonly Turn[];
  /** Name of downloaded files. */
  readonly name: string;
  /** Whether these are all events. */
  readonly isWhole: boolean;
}) {
  const turns = turnsOf(events);
  if (turns.length === 0) return null;
  return (
    <section aria-label="Conversation" className="flex min-w-0 flex-col gap-2">
      <h3 className="font-medium">Conversation</h3>
      <ol className="flex min-w-0 flex-col gap-2">
        {turns.map(({ key, content }) => (
          <li key={key} className="flex min-w-0 flex-col gap-2 rounded-md border border-line p-2">
            <Contents content={content} name={`${name}-${key}`} />
          </li>
        ))}
      </ol>
      {!isWhole && <Loading />}
    </section>
  );
}

/** Returns the contents without arguments that a message of the model already shows. */
function turnsOf(events: readonly Turn[]) {
  const hasCalls = events.some(({ content }) => content?.messages?.some(({ role }) => role === 'tool_call'));
  return events.flatMap(({ sequence_no: key, content }) => {
    if (!content) return [];
    const shown: Content = hasCalls ? { ...content, arguments: undefined } : content;
    const isEmpty = !shown.messages?.length && !shown.arguments && !shown.result;
    return isEmpty ? [] : [{ key, content: shown }];
  });
}
