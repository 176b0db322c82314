import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { absoluteTime } from '../../ui/data/time.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Checkbox, TextField } from '../../ui/field.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { Code } from '../../ui/text/code.tsx';
import { SettingsFrame } from './settings-frame.tsx';

type Telemetry = AnswerOf<'getTelemetry'>['telemetry'];

/** The collector to which the spans of runs are sent. */
export function TelemetryPage() {
  const { id: workspace_id, role } = useWorkspace();
  const { data, error, refetch } = useOperation('getTelemetry', { params: { workspace_id } });
  return (
    <SettingsFrame
      part="telemetry"
      description="Sends the spans of ended runs to an OpenTelemetry collector, by the GenAI conventions."
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && <Current telemetry={data.telemetry} isOwner={role === 'owner'} />}
      {data && role === 'owner' && <Edit key={data.telemetry?.updated_at ?? 'new'} telemetry={data.telemetry} />}
    </SettingsFrame>
  );
}

function Current({ telemetry, isOwner }: { readonly telemetry: Telemetry; readonly isOwner: boolean }) {
  const { id: workspace_id } = useWorkspace();
  const params = { workspace_id };
  const [isDeleting, setDeleting] = useState(false);
  const test = useAction('testTelemetry', { stale: [], silent: true });
  const remove = useAction('deleteTelemetry', { stale: ['getTelemetry'], silent: true });
  if (telemetry === null) return <p className="text-soft">No spans are sent.</p>;
  const names = Object.keys(telemetry.headers);
  return (
    <Section title="Collector">
      <div className="flex max-w-2xl flex-col gap-3">
        <p>
          Spans are sent to <Code>{telemetry.endpoint}</Code>
          {names.length > 0 && ` with ${names.join(', ')}`}
          {telemetry.content ? ', with the stored contents of runs.' : ', without contents.'}
        </p>
        {telemetry.problem && (
          <p role="alert">
            {telemetry.problem} No spans arrived since {absoluteTime(Date.parse(telemetry.problem_since!))}; they are
            kept for 24 hours.
          </p>
        )}
        {isOwner && (
          <div className="flex gap-2">
            <Button onPress={() => test.mutate({ params })} isPending={test.isPending}>
              Send a test span
            </Button>
            <Button onPress={() => setDeleting(true)}>Stop sending</Button>
          </div>
        )}
        {test.data && (
          <p role="status">
            {test.data.success ? `The collector answered ${test.data.status}.` : test.data.problem}{' '}
            {test.data.answer && <Code>{test.data.answer}</Code>}
          </p>
        )}
        {test.error && <ErrorBox error={test.error} />}
      </div>
      <ConfirmDialog
        title="Stop sending spans?"
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        action="Stop sending"
        onConfirm={() => remove.mutateAsync({ params })}
      >
        Spans that were not sent yet are lost, and the headers are forgotten.
      </ConfirmDialog>
    </Section>
  );
}

function Edit({ telemetry }: { readonly telemetry: Telemetry }) {
  const { id: workspace_id } = useWorkspace();
  const [endpoint, setEndpoint] = useState(telemetry?.endpoint ?? '');
  const [name, setName] = useState('');
  const [value, setValue] = useState('');
  const [hasContent, setContent] = useState(telemetry?.content ?? false);
  const save = useAction('setTelemetry', { stale: ['getTelemetry'], silent: true });
  const submit = () =>
    save.mutate({
      params: { workspace_id },
      // Without a name, the headers stay as they are.
      body: {
        endpoint: endpoint.trim(),
        content: hasContent,
        ...(name.trim() && { headers: { [name.trim()]: value } }),
      },
    });
  return (
    <Section title={telemetry === null ? 'Send spans' : 'Change'}>
      <div className="flex max-w-2xl flex-col gap-3">
        <TextField
          label="Endpoint"
          value={endpoint}
          onChange={setEndpoint}
          isMono
          placeholder="https://otel.example.com"
          description="A public https address that takes OTLP over HTTP. /v1/traces is added."
        />
        <TextField
          label="Header"
          value={name}
          onChange={setName}
          isMono
          placeholder="authorization"
          description={telemetry === null ? 'With the key of the collector.' : 'Empty: the headers stay as they are.'}
        />
        <TextField label="Value" value={value} onChange={setValue} isMono type="password" />
        <Checkbox value={hasContent} onChange={setContent}>
          With the stored contents of runs, such as prompts and answers
        </Checkbox>
        <div>
          <Button
            variant="primary"
            onPress={submit}
            isPending={save.isPending}
            isDisabled={endpoint.trim() === '' || (name.trim() === '') !== (value === '')}
          >
            Save
          </Button>
        </div>
        {save.error && <ErrorBox error={save.error} />}
      </div>
    </Section>
  );
}
