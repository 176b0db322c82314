import { useState } from 'react';
import { mayBeCurrent } from '#core/agents/gates/standing.ts';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';
import type { TabProps } from './version.ts';

type Channel = AnswerOf<'listChannels'>['channels'][number];
type Change = AnswerOf<'getChannel'>['history'][number];

const STALE = ['listChannels', 'getChannel'] as const;
const NO_CANARY = 'none';

/** What the owner does with a channel. */
type Doing =
  | { readonly kind: 'set'; readonly channel?: Channel }
  | { readonly kind: 'promote' | 'rollback' | 'delete' | 'history'; readonly channel: Channel };

/** The names of the versions of an agent, with their canaries and histories. */
export function Channels({ agent, versions }: TabProps) {
  const { slug, role } = useWorkspace();
  const { data, error, refetch } = useOperation('listChannels', { params: { id: agent.id } });
  const [doing, setDoing] = useState<Doing>();
  const isOwner = role === 'owner';
  const close = () => setDoing(undefined);
  const shown = doing?.channel;
  return (
    <Section
      title="Channels"
      description={`Names for versions: ${slug}/${agent.name}@prod calls what the channel prod names.`}
      actions={
        <Button isDisabled={!isOwner} onPress={() => setDoing({ kind: 'set' })}>
          New channel
        </Button>
      }
    >
      {error && <ErrorBox error={error} onRetry={refetch} />}
      {data === undefined && !error && <Loading />}
      {data?.channels.length === 0 && <p className="text-soft">This agent has no channels.</p>}
      {data !== undefined && data.channels.length > 0 && (
        <Table
          label="Channels"
          rows={data.channels}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Channel', cell: ({ name }) => name },
            { title: 'Version', cell: ({ version }) => version },
            { title: 'Canary', cell: (channel) => <Canary channel={channel} /> },
            { title: 'Changed', cell: ({ updated_at }) => <Time at={updated_at} />, from: 'md' },
            {
              title: 'Action',
              cell: (channel) => <Actions channel={channel} isOwner={isOwner} onDo={setDoing} />,
            },
          ]}
        />
      )}
      {doing?.kind === 'set' && <SetDialog agent={agent} versions={versions} channel={doing.channel} onClose={close} />}
      {doing?.kind === 'history' && shown && <History agent={agent} channel={shown} onClose={close} />}
      <Steps agent={agent} doing={doing} onClose={close} />
    </Section>
  );
}

function Canary({ channel: { canary } }: { readonly channel: Channel }) {
  if (canary === null) return <span className="text-soft">–</span>;
  return (
    <span className="flex flex-wrap items-center gap-1.5">
      {canary.percent} % on {canary.version}
      {canary.taken_back && <Badge tone="bad">{`Taken back: ${canary.taken_back.why}`}</Badge>}
    </span>
  );
}

function Actions({
  channel,
  isOwner,
  onDo,
}: {
  readonly channel: Channel;
  readonly isOwner: boolean;
  readonly onDo: (doing: Doing) => void;
}) {
  const { name, canary } = channel;
  const button = (kind: Doing['kind'], label: string, isDisabled = !isOwner) => (
    <Button
      variant={kind === 'delete' ? 'danger' : 'plain'}
      isDisabled={isDisabled}
      aria-label={`${label}: ${name}`}
      onPress={() => onDo({ kind, channel })}
    >
      {label}
    </Button>
  );
  return (
    <span className="flex flex-wrap gap-2">
      {button('set', 'Change')}
      {canary !== null && canary.taken_back === null && button('promote', 'Promote')}
      {button('rollback', 'Roll back')}
      {button('history', 'History', false)}
      {button('delete', 'Delete')}
    </span>
  );
}

/** The dialogs of the steps that need nothing but a confirmation. */
function Steps({
  agent,
  doing,
  onClose,
}: {
  readonly agent: TabProps['agent'];
  readonly doing: Doing | undefined;
  readonly onClose: () => void;
}) {
  const promote = useAction('promoteCanary', { stale: STALE, silent: true });
  const rollback = useAction('rollBackChannel', { stale: STALE, silent: true });
  const remove = useAction('deleteChannel', { stale: STALE, silent: true });
  const channel = doing?.channel;
  const name = channel?.name ?? '';
  const params = { id: agent.id, channel: name };
  const revision = channel?.revision;
  const step = { params, body: { revision } };
  return (
    <>
      <ConfirmDialog
        title={`Promote ${channel?.canary?.version} to ${name}?`}
        isOpen={doing?.kind === 'promote'}
        onClose={onClose}
        action="Promote"
        isDanger={false}
        onConfirm={() => promote.mutateAsync(step)}
      >
        All calls of {agent.name}@{name} run {channel?.canary?.version}. Schedules and services that follow the channel
        move to it.
      </ConfirmDialog>
      <ConfirmDialog
        title={`Roll back ${name}?`}
        isOpen={doing?.kind === 'rollback'}
        onClose={onClose}
        action="Roll back"
        onConfirm={() => rollback.mutateAsync(step)}
      >
        {channel?.canary
          ? `The canary ${channel.canary.version} gets no more calls; ${channel.version} stays.`
          : `The channel names the version that it named before ${channel?.version}.`}
      </ConfirmDialog>
      <ConfirmDialog
        title={`Delete the channel ${name}?`}
        isOpen={doing?.kind === 'delete'}
        onClose={onClose}
        action="Delete channel"
        onConfirm={() => remove.mutateAsync({ params, query: { revision: String(revision) } })}
      >
        Calls of {agent.name}@{name} are answered “not found”, and schedules that follow it fail. Its versions stay.
      </ConfirmDialog>
    </>
  );
}

/** Makes a channel, or changes its version and canary. */
function SetDialog({
  agent,
  versions,
  channel,
  onClose,
}: TabProps & { readonly channel: Channel | undefined; readonly onClose: () => void }) {
  const put = useAction('putChannel', { stale: STALE, silent: true });
  const [name, setName] = useState(channel?.name ?? '');
  const [version, setVersion] = useState(channel?.version ?? agent.version);
  const [canary, setCanary] = useState(channel?.canary?.version ?? NO_CANARY);
  const [percent, setPercent] = useState(String(channel?.canary?.percent ?? 10));
  const choices = versions.filter(mayBeCurrent).map((each) => ({ id: each.version, label: each.version }));
  const number = Number(percent);
  const isPercent = percent.trim() !== '' && number >= 0 && number <= 100;
  const before = channel?.canary;
  const save = () =>
    put.mutate(
      {
        params: { id: agent.id, channel: name.trim() },
        body: {
          version,
          revision: channel?.revision ?? 0,
          ...(canary !== NO_CANARY && {
            canary: {
              version: canary,
              percent: number,
              key: before?.key,
              max_error_rate: before?.max_error_rate,
              min_calls: before?.min_calls,
              min_score: before?.min_score,
            },
          }),
        },
      },
      {
        onSuccess: (after) => {
          toast({ tone: 'good', text: `${after.reference} names ${after.version}.` });
          onClose();
        },
      },
    );
  return (
    <Dialog
      title={channel === undefined ? 'New channel' : `Change ${channel.name}`}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Cancel</Button>
          <Button
            variant="primary"
            onPress={save}
            isPending={put.isPending}
            isDisabled={name.trim() === '' || (canary !== NO_CANARY && !isPercent)}
          >
            Save
          </Button>
        </>
      }
    >
      {channel === undefined && (
        <TextField
          label="Name"
          description="Such as prod: lower-case letters, digits and hyphens"
          value={name}
          onChange={setName}
        />
      )}
      <Select label="Version" value={version} onChange={setVersion} choices={choices} />
      <Select
        label="Canary"
        value={canary}
        onChange={setCanary}
        choices={[{ id: NO_CANARY, label: 'None' }, ...choices.filter(({ id }) => id !== version)]}
      />
      {canary !== NO_CANARY && (
        <TextField
          label="Percent of the calls"
          description="The platform takes the canary back if too many of its calls fail."
          inputMode="decimal"
          value={percent}
          onChange={setPercent}
          error={isPercent ? undefined : 'Enter a number from 0 to 100'}
        />
      )}
      {put.error && <ErrorBox error={put.error} />}
    </Dialog>
  );
}

function History({
  agent,
  channel,
  onClose,
}: {
  readonly agent: TabProps['agent'];
  readonly channel: Channel;
  readonly onClose: () => void;
}) {
  const { data, error } = useOperation('getChannel', { params: { id: agent.id, channel: channel.name } });
  return (
    <Dialog title={`History of ${channel.name}`} size="large" isOpen onClose={onClose}>
      {error && <ErrorBox error={error} />}
      {data === undefined && !error && <Loading />}
      {data && (
        <Table
          label={`History of ${channel.name}`}
          rows={data.history}
          keyOf={({ revision }) => String(revision)}
          columns={[
            { title: 'When', cell: ({ at }) => <Time at={at} /> },
            { title: 'From', cell: ({ from }) => textOf(from) },
            { title: 'To', cell: ({ to }) => textOf(to) },
            { title: 'By', cell: ({ by, by_name }) => (by === null ? 'The platform' : escapeText(by_name ?? by)) },
            { title: 'Why', cell: ({ why }) => escapeText(why ?? '') },
          ]}
        />
      )}
    </Dialog>
  );
}

const textOf = (named: Change['to']): string => {
  if (named === null) return '–';
  return named.canary === null
    ? named.version
    : `${named.version}, ${named.canary.percent} % on ${named.canary.version}`;
};
