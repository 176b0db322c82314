import { Plus, Webhook } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf, ArgumentsOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog, Dialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, Select, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Code } from '../../ui/text/code.tsx';
import { toast } from '../../ui/toast.tsx';
import { SettingsFrame } from './settings-frame.tsx';

type Destination = AnswerOf<'listDestinations'>['destinations'][number];
type Event = Destination['events'][number];
type NewDestination = ArgumentsOf<'createDestination'>['body'];

/** Addresses to which ends of runs, and what they ask, are posted. */
export function DestinationsPage() {
  const { id: workspace_id, role } = useWorkspace();
  const { data, error, refetch } = useOperation('listDestinations', { params: { workspace_id } });
  const [editing, setEditing] = useState<Destination | 'new'>();
  const [logged, setLogged] = useState<Destination>();
  const [deleting, setDeleting] = useState<Destination>();
  const remove = useAction('deleteDestination', { stale: ['listDestinations'], silent: true });
  const isOwner = role === 'owner';
  return (
    <SettingsFrame
      part="destinations"
      description="Addresses to which ends of runs, and what they ask, are posted, signed with the secret of the workspace."
      actions={
        isOwner && (
          <Button variant="primary" icon={Plus} onPress={() => setEditing('new')}>
            Add destination
          </Button>
        )
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Destinations"
          rows={data.destinations}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Address', cell: ({ url }) => <Code>{url}</Code> },
            { title: 'State', cell: (each) => <State {...each} /> },
            { title: 'Events', cell: (each) => eventsOf(each), from: 'md' },
            { title: 'Agents', cell: ({ agents }) => (agents.length === 0 ? 'all' : agents.join(', ')), from: 'md' },
            {
              title: 'Action',
              cell: (each) => (
                <div className="flex flex-wrap gap-2">
                  <Button aria-label={`Log of ${each.url}`} onPress={() => setLogged(each)}>
                    Log
                  </Button>
                  {isOwner && (
                    <>
                      <TestButton {...each} />
                      <Button aria-label={`Change ${each.url}`} onPress={() => setEditing(each)}>
                        Change
                      </Button>
                      <Button variant="danger" aria-label={`Delete ${each.url}`} onPress={() => setDeleting(each)}>
                        Delete
                      </Button>
                    </>
                  )}
                </div>
              ),
            },
          ]}
          empty={
            <Empty
              icon={Webhook}
              title="No destinations"
              command={`${COMMAND} destinations create https://hooks.example.com/runs`}
            >
              Add an address above or from a terminal, and it gets a message when a run ends or asks:
            </Empty>
          }
        />
      )}
      {editing && (
        <EditDestination {...(editing !== 'new' && { destination: editing })} onClose={() => setEditing(undefined)} />
      )}
      {logged && <Log destination={logged} onClose={() => setLogged(undefined)} />}
      <ConfirmDialog
        title="Delete the destination?"
        isOpen={deleting !== undefined}
        onClose={() => setDeleting(undefined)}
        action="Delete destination"
        onConfirm={() => remove.mutateAsync({ params: { workspace_id, destination_id: deleting!.id } })}
      >
        {deleting?.url} gets no further messages, and its log can no longer be read.
      </ConfirmDialog>
    </SettingsFrame>
  );
}

/** What is posted. Without chosen events it is all, but a choice of statuses, which only the API has, leaves ends alone. */
const allOf = (destination?: Destination): string =>
  (destination?.statuses.length ?? 0) > 0 ? 'All ends of runs' : 'All events';
const eventsOf = (destination: Destination): string =>
  destination.events.length === 0
    ? allOf(destination)
    : destination.events.map((event) => EVENTS[event].label).join(', ');

function State({ enabled, disabled_reason }: Destination) {
  return (
    <div className="flex flex-col gap-1">
      <Status value={enabled ? 'enabled' : disabled_reason === null ? 'disabled' : 'auto_disabled'} />
      {disabled_reason !== null && <span className="text-xs text-soft">{disabled_reason}</span>}
    </div>
  );
}

function TestButton({ id: destination_id, url }: Destination) {
  const { id: workspace_id } = useWorkspace();
  const test = useAction('testDestination', { stale: ['listDestinationLog'] });
  return (
    <Button
      aria-label={`Test ${url}`}
      isPending={test.isPending}
      onPress={() =>
        test.mutate(
          { params: { workspace_id, destination_id } },
          {
            onSuccess: ({ success, problem }) =>
              toast(
                success
                  ? { tone: 'good', text: 'The test message was accepted.' }
                  : { tone: 'bad', text: `The test message was not accepted: ${problem}.` },
              ),
          },
        )
      }
    >
      Test
    </Button>
  );
}

function Log({ destination, onClose }: { readonly destination: Destination; readonly onClose: () => void }) {
  const { id: workspace_id } = useWorkspace();
  const params = { workspace_id, destination_id: destination.id };
  const { data, error, refetch } = useOperation('listDestinationLog', { params, query: { limit: 50 } });
  return (
    <Dialog title="Deliveries of the last seven days" size="large" isOpen onClose={onClose}>
      <Code>{destination.url}</Code>
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Deliveries"
          rows={data.deliveries}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Time', cell: ({ created_at }) => <Time at={created_at} /> },
            { title: 'Run', cell: ({ run_id }) => (run_id === null ? 'test' : <Code>{run_id.slice(0, 8)}</Code>) },
            { title: 'Event', cell: ({ event }) => event, from: 'sm' },
            { title: 'Status', cell: ({ status }) => <Status value={status === 'delivered' ? 'success' : status} /> },
            { title: 'Tries', cell: ({ tries }) => tries },
            { title: 'Problem', cell: ({ problem }) => problem ?? 'none' },
          ]}
          empty={<Empty icon={Webhook} title="No deliveries yet" />}
        />
      )}
    </Dialog>
  );
}

const EVENTS: Readonly<Record<Event, { readonly label: string; readonly more?: string }>> = {
  'run.completed': { label: 'Completed runs' },
  'run.failed': { label: 'Failed runs', more: 'also timeouts, cancelled and lost runs' },
  'run.waiting': { label: 'Waiting runs', more: 'for people, a time or an event' },
  'approval.requested': { label: 'Requested approvals', more: 'and questions' },
  'approval.decided': { label: 'Decided approvals', more: 'and answered questions' },
  'approval.expired': { label: 'Expired approvals', more: 'and questions' },
  'score.dropped': { label: 'Dropped scores', more: 'of a version, in production' },
};
const FORMATS = [
  { id: 'standard', label: 'Standard Webhooks' },
  { id: 'cloudevents', label: 'CloudEvents' },
] as const;

function EditDestination({
  destination,
  onClose,
}: {
  /** @default - a new one is added */
  readonly destination?: Destination;
  readonly onClose: () => void;
}) {
  const { id: workspace_id } = useWorkspace();
  const [url, setUrl] = useState(destination?.url ?? '');
  const [events, setEvents] = useState<readonly Event[]>(destination?.events ?? []);
  const [isAll, setAll] = useState(events.length === 0);
  const [agents, setAgents] = useState(destination?.agents.join(', ') ?? '');
  const [format, setFormat] = useState<string>(destination?.format ?? 'standard');
  const [hasSubCalls, setSubCalls] = useState(destination?.include_sub_calls ?? false);
  const [hasOutput, setOutput] = useState(destination?.include_output ?? false);
  const [isEnabled, setEnabled] = useState(destination?.enabled ?? true);
  const create = useAction('createDestination', { stale: ['listDestinations'], silent: true });
  const update = useAction('updateDestination', { stale: ['listDestinations'], silent: true });
  const error = create.error ?? update.error;
  const submit = async () => {
    const body = {
      url,
      format: format as NewDestination['format'],
      events: isAll ? [] : [...events],
      agents: agents
        .split(',')
        .map((each) => each.trim())
        .filter((each) => each !== ''),
      include_sub_calls: hasSubCalls,
      include_output: hasOutput,
      // An unchanged value would clear the reason for which the platform disabled it.
      ...(isEnabled !== destination?.enabled && { enabled: isEnabled }),
    };
    try {
      if (destination === undefined) await create.mutateAsync({ params: { workspace_id }, body });
      else await update.mutateAsync({ params: { workspace_id, destination_id: destination.id }, body });
      onClose();
    } catch {
      // `error` holds the reason.
    }
  };
  const title = destination === undefined ? 'Add a destination' : 'Change the destination';
  const action = destination === undefined ? 'Add destination' : 'Save changes';
  return (
    <Dialog
      title={title}
      isOpen
      onClose={onClose}
      actions={
        <>
          <Button onPress={onClose}>Close</Button>
          <Button
            variant="primary"
            onPress={submit}
            isPending={create.isPending || update.isPending}
            isDisabled={url.trim() === '' || (!isAll && events.length === 0)}
          >
            {action}
          </Button>
        </>
      }
    >
      <TextField
        label="Address"
        value={url}
        onChange={setUrl}
        isMono
        placeholder="https://hooks.example.com/runs"
        description="A public https address."
      />
      <fieldset className="flex flex-col gap-1.5">
        <legend className="mb-1 font-medium">Events</legend>
        <Checkbox value={isAll} onChange={setAll}>
          {allOf(destination)}
        </Checkbox>
        {!isAll &&
          (Object.keys(EVENTS) as Event[]).map((event) => (
            <Checkbox
              key={event}
              value={events.includes(event)}
              onChange={(on) => setEvents(on ? [...events, event] : events.filter((each) => each !== event))}
            >
              {EVENTS[event].label}
              {EVENTS[event].more && <span className="text-soft">, {EVENTS[event].more}</span>}
            </Checkbox>
          ))}
      </fieldset>
      <TextField
        label="Agents"
        value={agents}
        onChange={setAgents}
        isMono
        placeholder="main/triage, main/report"
        description="Separated by commas. Empty: all."
      />
      <Select label="Form" value={format} onChange={setFormat} choices={FORMATS} />
      <Checkbox value={hasSubCalls} onChange={setSubCalls}>
        Also runs that other runs called
      </Checkbox>
      <Checkbox value={hasOutput} onChange={setOutput}>
        With the output of the run, up to 32 KB
      </Checkbox>
      <Checkbox value={isEnabled} onChange={setEnabled}>
        Enabled
      </Checkbox>
      {error && <ErrorBox error={error} />}
    </Dialog>
  );
}
