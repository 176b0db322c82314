import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { count } from '../../ui/data/numbers.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, TextField } from '../../ui/field.tsx';
import { Section } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { Fork } from './fork.tsx';
import { timeLimitOf } from './time-limit.ts';
import type { TabProps } from './version.ts';

/** Editable settings of a published version, copying, and deletion of the agent. */
export default function SettingsTab({ agent, versions }: TabProps) {
  const isOwner = useWorkspace().role === 'owner';
  return (
    <>
      {!isOwner && <p className="text-soft">Only workspace owners can change these settings.</p>}
      <Changeable agent={agent} isOwner={isOwner} />
      <Section title="Fork" description="Creates a private copy in this or another workspace of yours.">
        {agent.is_public && agent.allow_local_download && agent.pricing_mode === 'free' ? (
          <Fork agent={agent} />
        ) : (
          <p className="text-soft">Only free public agents with available source can be forked.</p>
        )}
      </Section>
      {isOwner && <Deletion agent={agent} versions={versions} />}
    </>
  );
}

function Changeable({ agent, isOwner }: { readonly agent: TabProps['agent']; readonly isOwner: boolean }) {
  const save = useAction('updateAgent', { stale: ['listAgents', 'getAgent'], silent: true });
  const initial = {
    description: agent.description ?? '',
    tags: agent.tags.join(', '),
    endpoint: agent.default_endpoint,
    seconds: String(agent.timeout_seconds),
    isPublic: agent.is_public,
    isAvailable: agent.allow_local_download,
  };
  const [form, setForm] = useState(initial);
  const set = (change: Partial<typeof form>) => setForm({ ...form, ...change });
  const tags = form.tags.split(',').flatMap((tag) => (tag.trim() === '' ? [] : [tag.trim()]));
  const body = {
    ...(form.description !== initial.description && { description: form.description }),
    ...(form.tags !== initial.tags && { tags }),
    ...(form.endpoint !== initial.endpoint && { default_endpoint: form.endpoint }),
    ...(form.seconds !== initial.seconds && { timeout_seconds: Number(form.seconds) }),
    ...(form.isPublic !== initial.isPublic && { is_public: form.isPublic }),
    ...(form.isAvailable !== initial.isAvailable && { allow_local_download: form.isAvailable }),
  };
  const isNumber = form.seconds.trim() !== '' && Number.isFinite(Number(form.seconds));
  const submit = () =>
    save.mutate(
      { params: { id: agent.id }, body },
      { onSuccess: () => void toast({ tone: 'good', text: `${agent.name} ${agent.version} was changed.` }) },
    );
  return (
    <Section
      title={`Settings of ${agent.version}`}
      description="These settings apply to this version. The next publish uses those of its manifest."
    >
      <div className="flex max-w-xl flex-col gap-3">
        <TextField
          label="Description"
          lines={2}
          isDisabled={!isOwner}
          value={form.description}
          onChange={(description) => set({ description })}
        />
        <TextField
          label="Tags"
          description="Comma-separated"
          isDisabled={!isOwner}
          value={form.tags}
          onChange={(text) => set({ tags: text })}
        />
        <div className="grid gap-3 sm:grid-cols-2">
          <TextField
            label="Endpoint"
            description="Last part of the URL"
            isDisabled={!isOwner}
            value={form.endpoint}
            onChange={(endpoint) => set({ endpoint })}
          />
          <TextField
            label="Time limit (seconds)"
            inputMode="numeric"
            isDisabled={!isOwner}
            value={form.seconds}
            onChange={(seconds) => set({ seconds })}
            description={agent.durable === false ? undefined : `Its runs are durable: ${timeLimitOf(agent)}`}
            error={isNumber ? undefined : 'Enter a number of seconds'}
          />
        </div>
        <Checkbox value={form.isPublic} onChange={(isPublic) => set({ isPublic })} isDisabled={!isOwner}>
          Public: listed in the catalog and callable by anyone with an API key
        </Checkbox>
        <Checkbox value={form.isAvailable} onChange={(isAvailable) => set({ isAvailable })} isDisabled={!isOwner}>
          Source available: anyone who can see the agent can download and fork it
        </Checkbox>
        {save.error && <ErrorBox error={save.error} />}
        <div>
          <Button
            variant="primary"
            onPress={submit}
            isPending={save.isPending}
            isDisabled={!isOwner || !isNumber || Object.keys(body).length === 0}
          >
            Save changes
          </Button>
        </div>
      </div>
    </Section>
  );
}

function Deletion({ agent: { id, name }, versions }: TabProps) {
  const { slug } = useWorkspace();
  const navigate = useNavigate();
  const [isAsked, setAsked] = useState(false);
  const check = useOperation(
    'checkAgentDeletion',
    { params: { id }, query: { mode: 'all_versions' } },
    { enabled: isAsked },
  );
  const remove = useAction('deleteAgent', { stale: ['listAgents'], silent: true });
  const confirm = async () => {
    await remove.mutateAsync({ params: { id }, query: { mode: 'all_versions', confirmation_name: name } });
    toast({ tone: 'good', text: `${name} was deleted.` });
    await navigate({ to: '/$workspace/agents', params: { workspace: slug } });
  };
  const forks = check.data?.fork_count ?? 0;
  return (
    <Section title="Delete agent" description="Its data is kept for 30 days, but it can no longer be called.">
      <Button variant="danger" onPress={() => setAsked(true)}>
        Delete {name}
      </Button>
      <ConfirmDialog
        title={`Delete ${name}?`}
        isOpen={isAsked}
        onClose={() => setAsked(false)}
        action="Delete agent"
        typed={name}
        onConfirm={confirm}
      >
        {check.error && <ErrorBox error={check.error} />}
        <p>
          {count(check.data?.version_count ?? versions.length)} versions are deleted. Calls to them fail with “not
          found”, and its schedules and service keys are deleted.
          {forks > 0 && ` Its ${count(forks)} ${forks === 1 ? 'fork is' : 'forks are'} kept.`}
        </p>
      </ConfirmDialog>
    </Section>
  );
}
