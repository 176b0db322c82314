import { useState } from 'react';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { toast } from '../../ui/toast.tsx';
import { effectOn } from './environment-tab.tsx';
import { SecretChoice } from './secret-choice.tsx';
import type { Service } from './service-state.ts';

/** Secrets passed to the app. Values are never shown. */
export function SecretsTab({ service }: { readonly service: Service }) {
  const { id: workspace_id, role } = useWorkspace();
  const agent = useOperation('getAgent', { params: { id: service.agent_id } }, { retry: false });
  const update = useAction('updateService', { stale: ['getService', 'listServices'], silent: true });
  const [edited, setEdited] = useState<readonly string[]>();
  if (agent.isPending) return <Loading />;
  // The required secrets of another workspace's agent are not disclosed, so none of its secrets can be removed.
  const required = agent.data?.required_secrets ?? [];
  const added = service.secret_names.filter((name) => !required.includes(name));
  const chosen = edited ?? added;
  const isOwner = role === 'owner';
  const isChanged = [...chosen].sort().join() !== [...added].sort().join();
  const save = () =>
    update.mutate(
      { params: { workspace_id, service_id: service.id }, body: { secret_names: [...chosen] } },
      {
        onSuccess: () => {
          setEdited(undefined);
          toast({ tone: 'good', text: 'Secrets saved.' });
        },
      },
    );
  return (
    <Section title="Secrets" description={isOwner ? effectOn(service) : undefined}>
      <div className="flex flex-col gap-3">
        <p className="text-soft">
          The app receives their values as environment variables of these names. A new value of one of them restarts the
          service.
        </p>
        <SecretChoice required={required} chosen={chosen} onChange={isOwner ? setEdited : undefined} />
        {update.error && <ErrorBox error={update.error} />}
        {isOwner && (
          <div className="flex flex-wrap justify-end gap-2">
            {isChanged && <Button onPress={() => setEdited(undefined)}>Discard changes</Button>}
            <Button variant="primary" onPress={save} isPending={update.isPending} isDisabled={!isChanged}>
              {service.desired_state === 'running' ? 'Save and restart' : 'Save'}
            </Button>
          </div>
        )}
      </div>
    </Section>
  );
}
