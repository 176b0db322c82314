import { keepPreviousData } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import { type AnswerOf, addressOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { Button } from '../../ui/button.tsx';
import { Figures } from '../../ui/data/figures.tsx';
import { bytes, count, percent } from '../../ui/data/numbers.tsx';
import { Status } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Duration, duration, Time } from '../../ui/data/time.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { TextField } from '../../ui/field.tsx';
import { OutsideLink } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Facts, Page, Section } from '../../ui/page.tsx';
import { Code, CodeBlock } from '../../ui/text/code.tsx';

const ASK_MS = 5_000;
/** Characters allowed in a header; keys contain no others. */
const SENDABLE = /^[\x21-\x7e]+$/;

type System = NonNullable<AnswerOf<'getDetailedHealth'>['system']>;

const NAMES: Readonly<Record<string, string>> = {
  api: 'API',
  database: 'Database',
  storage: 'Storage',
  sandbox: 'Sandbox',
};

/** Status of the platform's components, and process details for the operator. */
export function SystemPage() {
  // The key is only kept in memory and is discarded when the page is closed.
  const [key, setKey] = useState<string>();
  const { data, error, refetch, isPlaceholderData } = useOperation(
    'getDetailedHealth',
    key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } },
    { refetchInterval: ASK_MS, placeholderData: keepPreviousData, gcTime: 0 },
  );
  return (
    <Page
      title="System"
      description="Components of this platform, checked every 5 seconds."
      actions={data && <Status value={data.status} />}
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Components"
          rows={data.services}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Component', cell: ({ name }) => NAMES[name] ?? name },
            { title: 'State', cell: ({ status }) => <Status value={status} /> },
            { title: 'Response time', cell: ({ latency_ms }) => <Duration ms={latency_ms} />, isNumber: true },
          ]}
        />
      )}
      {data?.system && <SystemFacts system={data.system} needsKey={key !== undefined} />}
      {data && !data.system && (
        <Section title="For the operator" description="Version, sandboxes, disk and delays.">
          {data.services.some(({ name }) => name === 'sandbox') ? (
            <>
              <OperatorKey
                refused={error || isPlaceholderData ? undefined : key}
                isPending={isPlaceholderData}
                onGive={setKey}
              />
              <p className="mt-4 mb-2 text-soft">Or from a terminal:</p>
              <CodeBlock
                text={`curl -H "Authorization: Bearer $PLATFORM_OPERATOR_KEY" ${addressOf('getDetailedHealth')}`}
              />
            </>
          ) : (
            <p>On AWS, they are in CloudWatch.</p>
          )}
        </Section>
      )}
    </Page>
  );
}

/** Asks for the operator key. Another one can be tried immediately. */
function OperatorKey({
  refused,
  isPending,
  onGive,
}: {
  /** Last rejected key. */
  readonly refused: string | undefined;
  readonly isPending: boolean;
  readonly onGive: (key: string) => void;
}) {
  const [text, setText] = useState('');
  const isWrong = text !== '' && (text === refused || !SENDABLE.test(text));
  return (
    <form
      className="flex max-w-md flex-col items-start gap-3"
      onSubmit={(event) => {
        event.preventDefault();
        if (SENDABLE.test(text)) onGive(text);
      }}
    >
      <div className="w-full">
        <TextField
          label="Operator's key"
          type="password"
          autoComplete="off"
          isMono
          value={text}
          onChange={(next) => setText(next.trim())}
          // An error must not prevent the browser from submitting another key.
          validationBehavior="aria"
          error={isWrong ? "This is not this platform's operator key." : undefined}
          description="The value of PLATFORM_OPERATOR_KEY, which the platform's own machine does not need. It is used on this page, and forgotten when you leave it."
        />
      </div>
      <Button type="submit" isPending={isPending} isDisabled={text === ''}>
        Show more
      </Button>
    </form>
  );
}

function SystemFacts({ system, needsKey }: { readonly system: System; readonly needsKey: boolean }) {
  const { sandbox, disk, event_loop_delay_ms: delay } = system;
  const box = useRef<HTMLDivElement>(null);
  // The focused form was removed.
  useEffect(() => {
    if (needsKey) box.current!.focus();
  }, [needsKey]);
  return (
    <div ref={box} tabIndex={-1} className="flex flex-col gap-4 outline-none">
      {sandbox.problem !== null && (
        <div role="alert" className="rounded-lg border border-line bg-bad-ground p-3">
          <p className="font-medium">The sandbox is not working</p>
          <p>{sandbox.problem}</p>
        </div>
      )}
      <Figures
        label="Now"
        figures={[
          { name: 'Sandboxes', value: `${count(sandbox.running)} of ${count(sandbox.max)}`, note: sandbox.kind },
          {
            name: 'Waiting for a sandbox',
            value: count(sandbox.waiting),
            note: sandbox.waiting > 0 ? `the first for ${duration(sandbox.queue_age_ms)}` : 'queue is empty',
          },
          {
            name: 'Free disk space',
            value: bytes(disk.free_bytes),
            note: `${percent(disk.free_bytes, disk.size_bytes)} of ${bytes(disk.size_bytes)}`,
          },
          { name: 'Database', value: bytes(disk.database_bytes), note: 'on that disk' },
          {
            name: 'Event loop delay',
            value: duration(delay.p99),
            note: `p99 of a minute; p50 ${duration(delay.p50)}, at most ${duration(delay.max)}`,
          },
          { name: 'Memory', value: bytes(system.memory_bytes), note: 'of the process' },
        ]}
      />
      <Section title="Process">
        <Facts
          facts={[
            ['Version', <Code key="version">{system.version}</Code>],
            ['Node', <Code key="node">{system.node}</Code>],
            ['Started', <Time key="started" at={system.started_at} />],
            ['Sandbox', sandbox.kind],
            [
              'Metrics',
              needsKey ? (
                "For Prometheus, at /metrics with the operator's key"
              ) : (
                <OutsideLink key="metrics" href={addressOf('getMetrics')}>
                  For Prometheus
                </OutsideLink>
              ),
            ],
          ]}
        />
      </Section>
    </div>
  );
}
