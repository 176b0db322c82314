import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useAgents } from '../../api/agents.ts';
import { useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, Select, TextField } from '../../ui/field.tsx';
import { useKeys } from '../../ui/keys.ts';
import { Page, Section } from '../../ui/page.tsx';
import { EnvironmentEditor, envOf, problemOf, type Variable } from './environment-editor.tsx';
import { SecretChoice } from './secret-choice.tsx';

const route = getRouteApi('/signed-in/$workspace/services/new');

/** Returns the part of a host name that the platform derives from the name of a service. */
const labelOf = (name: string): string =>
  name
    .replace(/^.*\//, '')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '') || 'service';

/** Deploys a service. `agent` in the URL is a name in this workspace, or `org/agent` in another. */
export function NewServicePage() {
  const { id: workspace_id, slug } = useWorkspace();
  const { agent: given = '' } = route.useSearch();
  const navigate = route.useNavigate();
  const agents = useAgents();
  const deploy = useAction('deployService', { stale: ['listServices'], silent: true });
  const [agent, setAgent] = useState(given);
  const [name, setName] = useState('');
  const [instances, setInstances] = useState('1');
  const [variables, setVariables] = useState<readonly Variable[]>([]);
  const [secrets, setSecrets] = useState<readonly string[]>([]);
  const [isFollowing, setFollowing] = useState(true);
  const [alertUrl, setAlertUrl] = useState('');
  // Prompts and skills have no process.
  const hosted = (agents.rows ?? []).filter(({ type }) => type === 'tool' || type === 'agent');
  const names = [...new Set([...(given === '' ? [] : [given]), ...hosted.map((each) => each.name)])];
  const required = hosted.find((each) => each.name === agent)?.required_secrets ?? [];
  const problem = problemOf(variables);
  const canDeploy = agent !== '' && problem === undefined && !deploy.isPending;
  const submit = () => {
    if (!canDeploy) return;
    const body = {
      ...(agent.includes('/') ? { agent } : { agent_name: agent }),
      service_name: name === '' ? undefined : name,
      min_instances: Number(instances),
      env: envOf(variables),
      secret_names: [...secrets],
      auto_update: isFollowing,
      alert_webhook_url: alertUrl === '' ? undefined : alertUrl,
    };
    deploy.mutate(
      { params: { workspace_id }, body },
      {
        onSuccess: ({ service: { id } }) =>
          void navigate({ to: '/$workspace/services/$service', params: { workspace: slug, service: id } }),
      },
    );
  };
  useKeys({ 'Mod+Enter': submit });
  return (
    <Page
      title="Deploy service"
      description="Keeps an agent running: it starts immediately and restarts after a crash."
    >
      {agents.error && <ErrorBox error={agents.error} onRetry={() => void agents.refetch()} />}
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Section title="Configuration">
          <div className="flex flex-col gap-4">
            <Select
              label="Agent"
              choices={names.map((each) => ({ id: each, label: each }))}
              value={agent}
              onChange={setAgent}
              description={
                agents.rows && names.length === 0
                  ? 'No agents that can run as a service yet.'
                  : 'Agents of type “tool” or “agent”'
              }
            />
            <TextField
              label="Service name"
              value={name}
              onChange={setName}
              placeholder={agent}
              description={
                agent === ''
                  ? "Its URL starts with this name. Defaults to the agent's name."
                  : `Its URL starts with ${labelOf(name || agent)}, followed by a hyphen and a random part.`
              }
            />
            <TextField label="Instances" inputMode="numeric" value={instances} onChange={setInstances} />
            <TextField
              label="Alert webhook URL (optional)"
              value={alertUrl}
              onChange={setAlertUrl}
              placeholder="https://"
              description="Crash loops are reported to this URL."
            />
            <Checkbox value={isFollowing} onChange={setFollowing}>
              Follow new versions of the agent
            </Checkbox>
          </div>
        </Section>
        <div className="flex min-w-0 flex-col gap-4">
          <Section title="Environment" description="Visible to all members. Do not put secrets here.">
            <EnvironmentEditor variables={variables} onChange={setVariables} />
          </Section>
          <Section title="Secrets" description="The app receives their values as environment variables of these names.">
            <SecretChoice required={required} chosen={secrets} onChange={setSecrets} />
          </Section>
        </div>
      </div>
      {deploy.error && <ErrorBox error={deploy.error} />}
      {problem && <p className="text-bad">{problem}</p>}
      <div className="flex flex-wrap justify-end gap-2">
        <Button onPress={() => void navigate({ to: '/$workspace/services', params: { workspace: slug } })}>
          Close
        </Button>
        <Button variant="primary" onPress={submit} isPending={deploy.isPending} isDisabled={!canDeploy}>
          Deploy
        </Button>
      </div>
    </Page>
  );
}
