import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { Code } from '../../ui/text/code.tsx';
import { toast } from '../../ui/toast.tsx';
import { SettingsFrame } from './settings-frame.tsx';

type Org = AnswerOf<'getOrg'>;

const TRACE_CONTENTS: readonly { id: Org['trace_content']; label: string; description: string }[] = [
  { id: 'off', label: 'None', description: 'Traces contain no prompts, responses, arguments or results' },
  { id: 'errors', label: 'Failed runs only', description: 'Content of runs that failed, timed out or were cancelled' },
  { id: 'all', label: 'All runs', description: 'Content of every run' },
];

const APPROVERS: readonly { id: Org['approvers']; label: string }[] = [
  { id: 'members', label: 'All members' },
  { id: 'owners', label: 'Owners only' },
];

/** Name, time zone and traces of the workspace, and who decides in it. */
export function GeneralPage() {
  const { role } = useWorkspace();
  const { data, error, refetch } = useOperation('getOrg', {});
  return (
    <SettingsFrame
      part="general"
      description="Name, time zone and traces of the workspace, and who decides what runs ask."
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <>
          {role === 'owner' && <Changes key={data.id} org={data} />}
          <Section title="Workspace">
            <Facts
              facts={[
                ...(role === 'owner'
                  ? []
                  : ([
                      ['Name', data.name],
                      ['Time zone', data.timezone],
                      ['Trace content', TRACE_CONTENTS.find(({ id }) => id === data.trace_content)?.label],
                      ['Approvals are decided by', APPROVERS.find(({ id }) => id === data.approvers)?.label],
                    ] as const)),
                ['Slug', <Code key="slug">{data.slug}</Code>],
                ['ID', <Code key="id">{data.id}</Code>],
                ['Created', <Time key="made" at={data.created_at} />],
              ]}
            />
          </Section>
        </>
      )}
    </SettingsFrame>
  );
}

function Changes({ org }: { readonly org: Org }) {
  const [name, setName] = useState(org.name);
  const [timezone, setTimezone] = useState(org.timezone);
  const [content, setContent] = useState(org.trace_content);
  const [approvers, setApprovers] = useState(org.approvers);
  const save = useAction('updateOrg', { stale: ['getOrg', 'listWorkspaces'], silent: true });
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const isChanged =
    name !== org.name || timezone !== org.timezone || content !== org.trace_content || approvers !== org.approvers;
  const submit = async () => {
    try {
      // The platform normalises values: `utc` becomes `UTC`.
      const saved = await save.mutateAsync({ body: { name, timezone, trace_content: content, approvers } });
      setName(saved.name);
      setTimezone(saved.timezone);
      toast({ tone: 'good', text: 'Settings saved' });
    } catch {
      // `save.error` holds the reason.
    }
  };
  return (
    <Section title="Settings">
      <form
        className="flex max-w-lg flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        <TextField label="Name" value={name} onChange={setName} />
        <div className="flex flex-wrap items-end gap-2">
          <div className="min-w-0 grow">
            <TextField label="Time zone" value={timezone} onChange={setTimezone} placeholder="Europe/Berlin" />
          </div>
          {own !== timezone && <Button onPress={() => setTimezone(own)}>{`Use ${own}`}</Button>}
        </div>
        <p className="-mt-3 text-xs text-soft">Days start in this time zone.</p>
        <Select
          label="Trace content"
          choices={TRACE_CONTENTS}
          value={content}
          onChange={(value) => setContent(value as Org['trace_content'])}
          description="Prompts, responses, and arguments and results of tools. All members can read them."
        />
        <Select
          label="Approvals are decided by"
          choices={APPROVERS}
          value={approvers}
          onChange={(value) => setApprovers(value as Org['approvers'])}
          description="Also who answers questions of runs, and creates links to decide."
        />
        {save.error && <ErrorBox error={save.error} />}
        <div>
          <Button
            type="submit"
            variant="primary"
            isPending={save.isPending}
            isDisabled={!isChanged || name.trim() === ''}
          >
            Save settings
          </Button>
        </div>
      </form>
    </Section>
  );
}
