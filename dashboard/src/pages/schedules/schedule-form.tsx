import { useState } from 'react';
import { useAgents } from '../../api/agents.ts';
import type { ArgumentsOf } from '../../api/client.ts';
import { Button } from '../../ui/button.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, Select, TextField } from '../../ui/field.tsx';
import { objectOf } from '../../ui/json-object.ts';
import { useKeys } from '../../ui/keys.ts';
import { Section } from '../../ui/page.tsx';
import { SchemaInput } from '../../ui/schema-input.tsx';
import { cronInWords } from './cron-words.ts';
import { NextRuns } from './next-runs.tsx';
import type { Schedule } from './schedule-state.ts';

type Changes = ArgumentsOf<'updateSchedule'>['body'];
export type NewSchedule = ArgumentsOf<'createSchedule'>['body'];

const TYPES = [
  { id: 'cron', label: 'On a cron schedule' },
  { id: 'webhook', label: 'By webhook' },
];
const BROWSER_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const NEW = {
  agent_name: '',
  type: 'cron',
  cron_expression: '0 9 * * 1-5',
  timezone: BROWSER_ZONE,
  input_data: {},
  auto_update: true,
  overlap: 'allow',
  alert_webhook_url: null,
  alert_on_failure_count: 3,
  max_consecutive_failures: 10,
  run_count: 0,
} as const;

/** Returns an ISO time as the value of a `datetime-local` field; an empty text for none. */
function localTime(time: string | undefined): string {
  if (time === undefined) return '';
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const isoTime = (local: string): string | undefined => (local === '' ? undefined : new Date(local).toISOString());

/** Form of a new or existing schedule. `of` holds the initial values. */
export function ScheduleForm({
  of = NEW,
  isNew,
  agent: firstAgent,
  error,
  isPending,
  onSubmit,
  onClose,
}: {
  readonly of?: Pick<Schedule, keyof typeof NEW | 'ends_at' | 'max_runs'>;
  readonly isNew: boolean;
  /** Preselected agent of a new schedule. */
  readonly agent?: string;
  readonly error: unknown;
  readonly isPending: boolean;
  readonly onSubmit: (changes: Changes & Pick<NewSchedule, 'agent_name' | 'type'>) => void;
  readonly onClose: () => void;
}) {
  const agents = useAgents();
  const [agent, setAgent] = useState(firstAgent ?? of.agent_name);
  const [type, setType] = useState<string>(of.type);
  const [cron, setCron] = useState(of.cron_expression ?? NEW.cron_expression);
  const [zone, setZone] = useState(of.timezone);
  const [input, setInput] = useState(() => JSON.stringify(of.input_data, null, 2));
  const [isFollowing, setFollowing] = useState(of.auto_update);
  const [isSkipping, setSkipping] = useState(of.overlap === 'skip');
  const [alertUrl, setAlertUrl] = useState(of.alert_webhook_url ?? '');
  const [alertAfter, setAlertAfter] = useState(String(of.alert_on_failure_count));
  const [stopAfter, setStopAfter] = useState(String(of.max_consecutive_failures));
  const [end, setEnd] = useState(localTime(of.ends_at));
  const [maxRuns, setMaxRuns] = useState(String(of.max_runs ?? ''));
  const [inputError, setInputError] = useState<string>();

  // The field has no seconds, so an unchanged time is sent as it was.
  const endsAt = end === localTime(of.ends_at) ? of.ends_at : isoTime(end);
  const runsLeft = Number(maxRuns) - (isNew ? 0 : of.run_count);
  const submit = () => {
    const read = objectOf(input);
    setInputError(read.problem);
    if (read.problem !== undefined || agent === '') return;
    onSubmit({
      ...(isNew && { agent_name: agent, type: type as 'cron' | 'webhook' }),
      ...(type === 'cron' && { cron_expression: cron, timezone: zone }),
      input_data: read.value,
      auto_update: isFollowing,
      overlap: isSkipping ? 'skip' : 'allow',
      alert_webhook_url: alertUrl,
      alert_on_failure_count: Number(alertAfter),
      max_consecutive_failures: Number(stopAfter),
      ends_at: endsAt ?? null,
      max_runs: maxRuns === '' ? null : Number(maxRuns),
    });
  };
  useKeys({ 'Mod+Enter': submit });
  // Skills are read by other agents and cannot run.
  const names = (agents.rows ?? []).filter((each) => each.type !== 'skill').map(({ name }) => name);
  return (
    <div className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_minmax(0,26rem)]">
      <Section title={isNew ? 'Agent and input' : `Schedule of ${of.agent_name}`}>
        <div className="flex flex-col gap-4">
          {isNew && (
            <div className="grid gap-4 sm:grid-cols-2">
              <Select
                label="Agent"
                choices={names.map((name) => ({ id: name, label: name }))}
                value={agent}
                onChange={setAgent}
                description={agents.rows && names.length === 0 ? 'No agents yet. Publish one first.' : undefined}
              />
              <Select label="Starts" choices={TYPES} value={type} onChange={setType} />
            </div>
          )}
          {type === 'cron' && (
            <div className="grid gap-4 sm:grid-cols-2">
              <TextField
                label="Cron expression"
                isMono
                value={cron}
                onChange={setCron}
                description={`Runs ${cronInWords(cron)}`}
              />
              <TextField
                label="Time zone"
                value={zone}
                onChange={setZone}
                description="For example Europe/Berlin or UTC"
              />
            </div>
          )}
          <SchemaInput
            description="A JSON object. A webhook's body is added to it."
            key={agent}
            schema={(agents.rows ?? []).find(({ name }) => name === agent)?.input_schema}
            text={input}
            onChange={setInput}
            error={inputError}
          />
          <div className="flex flex-col gap-2">
            <Checkbox value={isFollowing} onChange={setFollowing}>
              Follow new versions of the agent
            </Checkbox>
            <Checkbox value={isSkipping} onChange={setSkipping}>
              Skip a run while the previous one is in progress
            </Checkbox>
          </div>
          <TextField
            label="Alert webhook URL (optional)"
            value={alertUrl}
            onChange={setAlertUrl}
            placeholder="https://"
            description="Failures are sent to this URL."
          />
          <div className="grid grid-cols-2 gap-4">
            <TextField label="Alert after failures" inputMode="numeric" value={alertAfter} onChange={setAlertAfter} />
            <TextField label="Disable after failures" inputMode="numeric" value={stopAfter} onChange={setStopAfter} />
          </div>
          <div className="grid grid-cols-2 gap-4">
            <TextField
              label="Ends at (optional)"
              type="datetime-local"
              value={end}
              onChange={setEnd}
              description={`In the time zone ${BROWSER_ZONE}`}
            />
            <TextField
              label="Ends after runs (optional)"
              inputMode="numeric"
              value={maxRuns}
              onChange={setMaxRuns}
              description={isNew ? undefined : `It has run ${of.run_count} times.`}
            />
          </div>
          {error != null && <ErrorBox error={error} />}
          <div className="flex flex-wrap justify-end gap-2">
            <Button onPress={onClose}>Close</Button>
            <Button variant="primary" onPress={submit} isPending={isPending} isDisabled={agent === ''}>
              {isNew ? 'Create schedule' : 'Save changes'}
            </Button>
          </div>
        </div>
      </Section>
      {type === 'cron' && (
        <Section title="Next runs" isFramed={false}>
          <NextRuns
            cron={cron}
            timezone={zone}
            endsAt={endsAt}
            maxRuns={runsLeft > 0 ? Math.trunc(runsLeft) : undefined}
            count={5}
          />
        </Section>
      )}
    </div>
  );
}
