import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { count, Money } from '../../ui/data/numbers.tsx';
import { Time } from '../../ui/data/time.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { NewLink } from '../../ui/new-link.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';

const KINDS = [
  { id: 'chat', label: 'Chat', description: 'A conversation' },
  { id: 'form', label: 'Form', description: 'The fields of the input, and one answer' },
];
const EXPIRIES = [
  { id: '1', label: '1 day' },
  { id: '7', label: '7 days' },
  { id: '30', label: '30 days' },
  { id: '365', label: '1 year' },
];

/** Makes, lists and revokes links by which people without an account talk to an agent. */
export function ShareChatDialog({ agent, onClose }: { readonly agent: string; readonly onClose: () => void }) {
  const { id: workspace_id, role } = useWorkspace();
  const params = { workspace_id };
  const { data, error } = useOperation('listChatLinks', { params, query: { agent } });
  const create = useAction('createChatLink', { stale: ['listChatLinks'], silent: true });
  const [kind, setKind] = useState('chat');
  const [title, setTitle] = useState('');
  const [welcome, setWelcome] = useState('');
  const [days, setDays] = useState('30');
  const [messages, setMessages] = useState('200');
  const [budget, setBudget] = useState('1');
  const isOwner = role === 'owner';
  const made = create.data;
  return (
    <Dialog
      title="Share as chat"
      isOpen
      size="large"
      onClose={onClose}
      actions={
        <Button
          variant="primary"
          isDisabled={!isOwner}
          isPending={create.isPending}
          onPress={() =>
            create.mutate({
              params,
              body: {
                agent,
                kind: kind as 'chat' | 'form',
                ...(title.trim() !== '' && { title: title.trim() }),
                ...(welcome.trim() !== '' && { welcome: welcome.trim() }),
                expires_in_days: Number(days),
                max_messages_per_day: Number(messages),
                daily_budget_usd: Number(budget),
              },
            })
          }
        >
          Create link
        </Button>
      }
    >
      <p>
        Anyone who has the link can talk to this agent without signing in, and sees answers only: no steps, logs or
        costs. The workspace pays, within these limits.
      </p>
      {isOwner ? (
        <div className="grid gap-3 sm:grid-cols-2">
          <Select label="Page" choices={KINDS} value={kind} onChange={setKind} />
          <Select label="Link expires after" choices={EXPIRIES} value={days} onChange={setDays} />
          <TextField label="Title" placeholder={agent.split('/')[1]} value={title} onChange={setTitle} />
          <TextField label="Welcome" value={welcome} onChange={setWelcome} />
          <TextField label="Messages per day" value={messages} onChange={setMessages} />
          <TextField label="Budget per day (US dollars)" value={budget} onChange={setBudget} />
        </div>
      ) : (
        <p className="text-soft">Only owners of the workspace can create and revoke links.</p>
      )}
      {create.error && <ErrorBox error={create.error} />}
      {made && <NewLink url={made.url} expires_at={made.expires_at} />}
      {error && <ErrorBox error={error} />}
      {!data && !error && <Loading />}
      {data && data.chat_links.length > 0 && (
        <section className="flex flex-col gap-1">
          <h3 className="font-medium">Active links</h3>
          <ul className="flex flex-col gap-1">
            {data.chat_links.map((link) => (
              <LinkRow
                key={link.id}
                link={link}
                isOwner={isOwner}
                onRevoke={() => {
                  if (made?.id === link.id) create.reset();
                }}
              />
            ))}
          </ul>
        </section>
      )}
    </Dialog>
  );
}

function LinkRow({
  link: { id: chat_link_id, title, kind, expires_at, messages_today, max_messages_per_day, cost_today_usd },
  isOwner,
  onRevoke,
}: {
  readonly link: AnswerOf<'listChatLinks'>['chat_links'][number];
  readonly isOwner: boolean;
  readonly onRevoke: () => void;
}) {
  const { id: workspace_id } = useWorkspace();
  const revoke = useAction('revokeChatLink', { stale: ['listChatLinks'] });
  return (
    <li className="flex flex-wrap items-center gap-2">
      <span className="min-w-0 grow">
        {title === null ? (kind === 'chat' ? 'Chat' : 'Form') : escapeText(title)}, expires <Time at={expires_at} />
        <span className="block text-xs text-soft">
          Today {count(messages_today)} of {count(max_messages_per_day)} messages, <Money usd={cost_today_usd} />
        </span>
      </span>
      {isOwner && (
        <Button
          variant="danger"
          isPending={revoke.isPending}
          onPress={() => {
            onRevoke();
            revoke.mutate({ params: { workspace_id, chat_link_id } });
          }}
        >
          Revoke
        </Button>
      )}
    </li>
  );
}
