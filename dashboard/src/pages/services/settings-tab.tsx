import { useState } from 'react';
import type { ArgumentsOf } from '../../api/client.ts';
import { useAction } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, TextField } from '../../ui/field.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { Code } from '../../ui/text/code.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { toast } from '../../ui/toast.tsx';
import { effectOn } from './environment-tab.tsx';
import type { Service } from './service-state.ts';

type Changes = NonNullable<ArgumentsOf<'updateService'>['body']>;

interface Form {
  readonly min: string;
  readonly max: string;
  readonly isFollowing: boolean;
  readonly overlaps: boolean;
  readonly command: string;
  /** One argument per line. */
  readonly args: string;
  readonly failures: string;
  readonly alertUrl: string;
}

const formOf = (service: Service): Form => ({
  min: String(service.min_instances),
  max: String(service.max_instances),
  isFollowing: service.auto_update,
  overlaps: service.overlap,
  command: service.command ?? '',
  args: (service.args ?? []).join('\n'),
  failures: String(service.max_restart_failures),
  alertUrl: service.alert_webhook_url ?? '',
});

const isCount = (text: string, most: number): boolean =>
  /^\d{1,4}$/.test(text) && Number(text) >= 1 && Number(text) <= most;

/** Runtime settings of a service. All members see them; only owners can change them. */
export function SettingsTab({ service }: { readonly service: Service }) {
  const { role } = useWorkspace();
  return role === 'owner' ? <Settings service={service} /> : <Shown service={service} />;
}

function Shown({ service }: { readonly service: Service }) {
  const { max_instances: most } = service;
  return (
    <Section title="Settings">
      <Facts
        facts={[
          ['Instances', `${service.min_instances}${most > service.min_instances ? ` to ${most}` : ''}`],
          ['New versions', service.auto_update ? 'Followed automatically' : 'Pinned to its version'],
          ['Replacement', service.overlap ? 'New instances start first' : 'Old instances stop first'],
          [
            'Command',
            service.command === null ? (
              'The command of the agent'
            ) : (
              <Code key="command">{escapeText([service.command, ...(service.args ?? [])].join(' '))}</Code>
            ),
          ],
          ['Paused after', `${service.max_restart_failures} consecutive failed starts`],
          ['Alerts', service.alert_webhook_url ?? 'None'],
          ['ID', <Code key="id">{service.id}</Code>],
        ]}
      />
    </Section>
  );
}

function Settings({ service }: { readonly service: Service }) {
  const { id: workspace_id } = useWorkspace();
  const [form, setForm] = useState(() => formOf(service));
  const set = (changed: Partial<Form>) => setForm((old) => ({ ...old, ...changed }));
  const update = useAction('updateService', { stale: ['getService', 'listServices'], silent: true });
  const saved = formOf(service);
  const isChanged = JSON.stringify(form) !== JSON.stringify(saved);
  const problems = {
    least: isCount(form.min, 1_000) ? undefined : 'A whole number from 1 to 1,000',
    most:
      isCount(form.max, 1_000) && Number(form.max) >= Number(form.min)
        ? undefined
        : 'A whole number, at least the minimum',
    failures: isCount(form.failures, 50) ? undefined : 'A whole number from 1 to 50',
    args: form.args !== '' && form.command === '' ? 'Arguments require a program' : undefined,
  };
  const isWrong = Object.values(problems).some((each) => each !== undefined);
  const save = () => {
    const body: Changes = {
      min_instances: Number(form.min),
      max_instances: Number(form.max),
      auto_update: form.isFollowing,
      overlap: form.overlaps,
      command: form.command === '' ? null : form.command,
      args: form.args === '' ? null : form.args.split('\n'),
      max_restart_failures: Number(form.failures),
      alert_webhook_url: form.alertUrl.trim(),
    };
    update.mutate(
      { params: { workspace_id, service_id: service.id }, body },
      { onSuccess: () => toast({ tone: 'good', text: 'Settings saved.' }) },
    );
  };
  return (
    <Section title="Settings" description={effectOn(service)}>
      <div className="flex flex-col gap-4">
        <div className="grid items-start gap-4 sm:grid-cols-2">
          <TextField
            label="Minimum instances"
            inputMode="numeric"
            value={form.min}
            onChange={(least) => set({ min: least })}
            error={problems.least}
          />
          <TextField
            label="Maximum instances"
            inputMode="numeric"
            value={form.max}
            onChange={(most) => set({ max: most })}
            error={problems.most}
          />
          <TextField
            label="Command"
            isMono
            value={form.command}
            onChange={(command) => set({ command })}
            description="A shell command, or a program if there are arguments. Leave empty for the command of the agent."
          />
          <TextField
            label="Arguments"
            isMono
            lines={2}
            value={form.args}
            onChange={(args) => set({ args })}
            description="One per line."
            error={problems.args}
          />
          <TextField
            label="Pause after consecutive failed starts"
            inputMode="numeric"
            value={form.failures}
            onChange={(failures) => set({ failures })}
            error={problems.failures}
          />
          <TextField
            label="Alert webhook URL (optional)"
            value={form.alertUrl}
            onChange={(alertUrl) => set({ alertUrl })}
            placeholder="https://"
            description="Crash loops are reported to this URL."
          />
        </div>
        <Checkbox value={form.isFollowing} onChange={(isFollowing) => set({ isFollowing })}>
          Follow new versions of the agent
        </Checkbox>
        <Checkbox value={form.overlaps} onChange={(overlaps) => set({ overlaps })}>
          Start new instances before the old ones stop (not for programs that must not run twice)
        </Checkbox>
        <p className="text-soft">
          Id <Code>{service.id}</Code>
        </p>
        {update.error && <ErrorBox error={update.error} />}
        <div className="flex flex-wrap justify-end gap-2">
          {isChanged && <Button onPress={() => setForm(saved)}>Discard changes</Button>}
          <Button variant="primary" onPress={save} isPending={update.isPending} isDisabled={!isChanged || isWrong}>
            {service.desired_state === 'running' ? 'Save and restart' : 'Save'}
          </Button>
        </div>
      </div>
    </Section>
  );
}
