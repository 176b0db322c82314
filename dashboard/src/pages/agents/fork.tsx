import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction } from '../../api/query.ts';
import { useWorkspace, useWorkspaces } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Select, TextField } from '../../ui/field.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { toast } from '../../ui/toast.tsx';

type PublicAgent = Pick<AnswerOf<'getPublicAgent'>, 'id' | 'name' | 'org_slug'>;

/** Copies a public agent into a workspace of the user and opens the copy. */
export function Fork({ agent }: { readonly agent: PublicAgent }) {
  const here = useWorkspace();
  const own = useWorkspaces().filter(({ role }) => role === 'owner');
  const navigate = useNavigate();
  const [target, setTarget] = useState((own.find(({ id }) => id === here.id) ?? own[0])?.id ?? '');
  const [name, setName] = useState(agent.name);
  const fork = useAction('forkAgent', { stale: ['listAgents'], silent: true });
  const [made, setMade] = useState<{ readonly key: string; readonly name: string }>();
  const workspace = own.find(({ id }) => id === target);
  if (workspace === undefined) return <p className="text-soft">You do not own a workspace to copy it to.</p>;
  const open = (to: string) =>
    navigate({ to: '/$workspace/agents/$name', params: { workspace: workspace.slug, name: to } });
  const submit = async () => {
    try {
      const answer = await fork.mutateAsync({
        params: { id: agent.id },
        body: { workspace_id: workspace.id, ...(name !== agent.name && { new_name: name }) },
      });
      toast({
        tone: 'good',
        text: `${workspace.slug}/${answer.agent.name}@${answer.agent.version} is a copy of ${agent.org_slug}/${agent.name}.`,
      });
      if (answer.service_key === undefined) await open(answer.agent.name);
      else setMade({ key: answer.service_key, name: answer.agent.name });
    } catch {
      // `fork.error` holds the reason.
    }
  };
  return (
    <div className="flex max-w-xl flex-col gap-3">
      <div className="grid gap-3 sm:grid-cols-2">
        <Select
          label="Destination"
          value={target}
          onChange={setTarget}
          choices={own.map(({ id, name: label, slug }) => ({ id, label, description: slug }))}
        />
        <TextField label="Name of the copy" value={name} onChange={setName} />
      </div>
      {fork.error && <ErrorBox error={fork.error} />}
      <div>
        <Button onPress={() => void submit()} isPending={fork.isPending} isDisabled={name === ''}>
          Fork agent
        </Button>
      </div>
      {made && (
        <ShownOnce title={`Service key of ${made.name}`} text={made.key} onClose={() => void open(made.name)}>
          The copy uses this key to call its dependencies.
        </ShownOnce>
      )}
    </div>
  );
}
