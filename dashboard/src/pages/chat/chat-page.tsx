import { getRouteApi } from '@tanstack/react-router';
import { Bot, MessagesSquare, PanelLeft, Play } from 'lucide-react';
import { useCallback, useMemo, useRef, useState } from 'react';
import { call } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import WaitingPart from '../../approvals/waiting-part.tsx';
import { COMMAND } from '../../base.ts';
import { ChatView } from '../../chat/chat-view.tsx';
import { textOfInput } from '../../chat/message-text.ts';
import type { ChatMessage, Draft } from '../../chat/transport.ts';
import { useLiveRefresh } from '../../live/use-live.ts';
import { Button, LinkButton } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Page } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { EditDialog } from './edit-dialog.tsx';
import { MessageFacts } from './message-facts.tsx';
import { MAX_TITLE, SessionList } from './session-list.tsx';
import { type ChatAgent, sessionTransport } from './session-transport.ts';
import { type Session, type Sessions, useSessions } from './use-sessions.ts';

const route = getRouteApi('/signed-in/$workspace/agents/$name/chat');
/** Length of a title that is taken from the first message. */
const TITLE_LENGTH = 60;

/** Conversations with an agent. */
export function ChatPage() {
  const { name } = route.useParams();
  const { slug: workspace } = useWorkspace();
  const { data, error, refetch } = useOperation('listAgents', { query: { name } }, { staleTime: 30_000 });
  const agent = data?.find(({ version, current_version }) => version === current_version) ?? data?.[0];
  const title = `Chat with ${name}`;
  if (agent?.callable && agent.sessions !== false) return <AgentChat key={agent.name} agent={agent} title={title} />;
  return (
    <Page title={title}>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data !== undefined && agent === undefined && (
        <Empty icon={Bot} title={`This workspace has no agent “${name}”`} command={`${COMMAND} publish ${name}`}>
          It may have been deleted, or belong to another workspace. Publish it from its folder:
        </Empty>
      )}
      {agent !== undefined && (
        <Empty
          icon={Bot}
          title="This agent takes no messages"
          action={
            <LinkButton to="/$workspace/agents/$name" params={{ workspace, name }}>
              Open the agent
            </LinkButton>
          }
        >
          {agent.type === 'skill'
            ? 'Skills are not called: agents that reference them follow their instructions.'
            : agent.callable
              ? 'Its manifest says that it takes no sessions.'
              : 'It runs as a service.'}
        </Empty>
      )}
    </Page>
  );
}

/** A session that was opened on this page, and what is sent in it first. */
interface Opened {
  readonly session: Session;
  readonly draft: Draft;
}

function AgentChat({ agent, title }: { readonly agent: ChatAgent; readonly title: string }) {
  const { id: workspaceId, slug: workspace } = useWorkspace();
  const { session: current, q: find = '' } = route.useSearch();
  const navigate = route.useNavigate();
  const ref = `${agent.org_slug}/${agent.name}`;
  const sessions = useSessions(workspaceId, ref);
  const { renew } = sessions;
  const [opened, setOpened] = useState<Opened>();
  const [isListOpen, setListOpen] = useState(false);
  useLiveRefresh(['run'], ['listSessions']);

  const open = useCallback(
    (id: string | undefined) => {
      setListOpen(false);
      void navigate({ search: (now) => ({ ...now, session: id }) });
    },
    [navigate],
  );
  const begin = useCallback(
    (session: Session, draft: Draft) => {
      setOpened({ session, draft });
      void renew();
      open(session.id);
    },
    [open, renew],
  );
  const list = (
    <SessionList
      sessions={sessions}
      params={{ workspace, name: agent.name }}
      current={current}
      find={find}
      onFind={(q) => void navigate({ search: (now) => ({ ...now, q }), replace: true })}
      onOpen={() => setListOpen(false)}
      onNew={() => open(undefined)}
      onDeleted={(id) => {
        if (id === current) open(undefined);
      }}
    />
  );
  return (
    <Page
      title={title}
      isWide
      actions={
        <>
          <div className="lg:hidden">
            <Button icon={PanelLeft} onPress={() => setListOpen(true)}>
              Chats
            </Button>
          </div>
          <LinkButton to="/$workspace/agents/$name" params={{ workspace, name: agent.name }} icon={Play}>
            Open agent
          </LinkButton>
        </>
      }
    >
      <div className="flex h-[calc(100dvh-6.5rem)] min-h-96 gap-4 max-md:h-[calc(100dvh-10.5rem)]">
        <div className="flex w-64 shrink-0 flex-col max-lg:hidden">{list}</div>
        <div className="flex min-w-0 grow flex-col rounded-lg border border-line bg-ground">
          {current === undefined ? (
            <NewChat key="new" agent={agent} onBegin={begin} />
          ) : (
            <SessionChat
              key={current}
              id={current}
              agent={agent}
              sessions={sessions}
              opened={opened?.session.id === current ? opened : undefined}
              onSent={() => setOpened(undefined)}
              onBegin={begin}
              onOpen={open}
            />
          )}
        </div>
      </div>
      <Dialog title="Chats" isOpen={isListOpen} onClose={() => setListOpen(false)}>
        <div className="flex h-[60dvh] flex-col">{list}</div>
      </Dialog>
    </Page>
  );
}

/** See `renderPrompt` of the platform. */
const PLACEHOLDER = /\{\{\s*([\w-]+)\s*\}\}/g;

/** Returns the schema of an agent's input: of a prompt without one, its placeholders. */
function schemaOf({ input_schema, prompt }: ChatAgent) {
  if (input_schema?.properties !== undefined || !prompt) return input_schema;
  const names = [...new Set([...prompt.matchAll(PLACEHOLDER)].map(([, name]) => name!))];
  if (names.length === 0) return input_schema;
  return {
    type: 'object',
    required: names,
    properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
  };
}

const composerOf = (agent: ChatAgent) => ({
  schema: schemaOf(agent),
  ...(agent.accepts_files && { files: { accept: agent.accept, max: agent.max_files } }),
  ...(agent.runnable === false && { disabled: agent.environment_error ?? 'This agent cannot run yet' }),
});

/** A chat without messages: its session is opened when the first is sent. */
function NewChat({
  agent,
  onBegin,
}: {
  readonly agent: ChatAgent;
  readonly onBegin: (session: Session, draft: Draft) => void;
}) {
  const { id: workspace_id } = useWorkspace();
  const isOpening = useRef(false);
  const begin = async (draft: Draft) => {
    if (isOpening.current) return;
    isOpening.current = true;
    try {
      const text = (draft.text ?? textOfInput(draft.input) ?? '').replaceAll(/\s+/g, ' ').trim();
      const title = text.length > TITLE_LENGTH ? `${text.slice(0, TITLE_LENGTH - 1)}…` : text;
      const body = { agent: `${agent.org_slug}/${agent.name}`, ...(title !== '' && { title }) };
      onBegin(await call('openSession', { params: { workspace_id }, body }), draft);
    } catch (error) {
      toast({ tone: 'bad', error });
      isOpening.current = false;
      throw error;
    }
  };
  return (
    <ChatView
      transport={NOWHERE}
      isNew
      onSend={begin}
      composer={composerOf(agent)}
      empty={
        <div className="flex grow flex-col justify-center">
          <Empty icon={MessagesSquare} title="What would you like to ask?">
            {agent.description} Each message runs the agent with what was said before.
          </Empty>
        </div>
      }
    />
  );
}

const nothing = () => Promise.reject(new Error('There is no session yet.'));
const NOWHERE = { list: nothing, send: nothing, follow: nothing, stop: nothing };

function SessionChat({
  id,
  agent,
  sessions,
  opened,
  onSent,
  onBegin,
  onOpen,
}: {
  readonly id: string;
  readonly agent: ChatAgent;
  readonly sessions: Sessions;
  readonly opened: Opened | undefined;
  readonly onSent: () => void;
  readonly onBegin: (session: Session, draft: Draft) => void;
  readonly onOpen: (id: string) => void;
}) {
  const { id: workspaceId } = useWorkspace();
  const listed = sessions.rows?.find((each) => each.id === id);
  const pin_version = (opened?.session ?? listed)?.pin_version ?? null;
  const transport = useMemo(
    () => sessionTransport(workspaceId, agent, { id, pin_version }),
    [workspaceId, agent, id, pin_version],
  );
  const params = useMemo(() => ({ workspace_id: workspaceId, session_id: id }), [workspaceId, id]);
  const [edited, setEdited] = useState<ChatMessage>();
  const title = listed?.title ?? undefined;
  const { renew } = sessions;
  const onFork = useCallback(
    async ({ number }: ChatMessage) => {
      try {
        const fork = await call('forkSession', {
          params,
          body: { after: number, ...(title !== undefined && { title: `${title} (fork)`.slice(0, MAX_TITLE) }) },
        });
        await renew();
        toast({ tone: 'good', text: `This is a new chat with the first ${number} messages.` });
        onOpen(fork.id);
      } catch (error) {
        toast({ tone: 'bad', error });
      }
    },
    [params, title, renew, onOpen],
  );
  const askAgain = async (draft: Draft) => {
    const after = edited!.number - 1;
    const fork = await call('forkSession', { params, body: { after, ...(title !== undefined && { title }) } });
    onBegin(fork, draft);
  };
  const waiting = useCallback(
    (run_id: string) => <WaitingPart params={{ workspace_id: workspaceId, run_id }} />,
    [workspaceId],
  );
  const facts = useCallback((message: ChatMessage) => <MessageFacts message={message} />, []);
  // A run in this session that another client began, or that ended.
  const revision = listed === undefined ? undefined : `${listed.messages} ${listed.status} ${listed.last_run_id}`;
  return (
    <>
      <ChatView
        transport={transport}
        isNew={opened !== undefined && opened.session.messages === 0}
        first={opened?.draft}
        onFirst={onSent}
        revision={revision}
        composer={composerOf(agent)}
        empty={<Empty icon={MessagesSquare} title="No messages yet" />}
        onEdit={setEdited}
        onFork={onFork}
        steps={agent.type === 'prompt' ? undefined : transport.steps}
        facts={facts}
        waiting={waiting}
      />
      {edited !== undefined && (
        <EditDialog message={edited} schema={schemaOf(agent)} onSend={askAgain} onClose={() => setEdited(undefined)} />
      )}
    </>
  );
}
