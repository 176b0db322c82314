import { useState } from 'react';
import { useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';
import { EnvironmentEditor, envOf, problemOf, variablesOf } from './environment-editor.tsx';
import type { Service } from './service-state.ts';

/** Describes the effect of a change before it is made. */
export const effectOn = ({ desired_state, overlap }: Service): string => {
  if (desired_state !== 'running') return 'The service is paused. Changes apply when it starts.';
  return overlap
    ? 'Changes start new instances. The old ones stop once the new ones are ready.'
    : 'Changes stop the instances and then start new ones. The service is unavailable in between.';
};

/** Plain variables of a service. All members see them; only owners can change them. */
export function EnvironmentTab({ service }: { readonly service: Service }) {
  const { id: workspace_id, role } = useWorkspace();
  const [edited, setEdited] = useState(() => variablesOf(service.env));
  const update = useAction('updateService', { stale: ['getService', 'listServices'], silent: true });
  if (role !== 'owner') {
    return (
      <Section title="Environment">
        <Facts facts={Object.entries(service.env).map(([name, value]) => [name, escapeText(value)])} />
      </Section>
    );
  }
  const problem = problemOf(edited);
  const env = envOf(edited);
  const isChanged = JSON.stringify(sorted(env)) !== JSON.stringify(sorted(service.env));
  const save = () =>
    update.mutate(
      { params: { workspace_id, service_id: service.id }, body: { env } },
      {
        onSuccess: () => toast({ tone: 'good', text: 'Environment saved.' }),
      },
    );
  return (
    <Section title="Environment" description={effectOn(service)}>
      <div className="flex flex-col gap-3">
        <EnvironmentEditor variables={edited} onChange={(next) => setEdited([...next])} />
        {problem && <p className="text-bad">{problem}</p>}
        {update.error && <ErrorBox error={update.error} />}
        <div className="flex flex-wrap justify-end gap-2">
          {isChanged && <Button onPress={() => setEdited(variablesOf(service.env))}>Discard changes</Button>}
          <Button
            variant="primary"
            onPress={save}
            isPending={update.isPending}
            isDisabled={!isChanged || problem !== undefined}
          >
            {service.desired_state === 'running' ? 'Save and restart' : 'Save'}
          </Button>
        </div>
      </div>
    </Section>
  );
}

const sorted = (env: Readonly<Record<string, string>>) => Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1));
