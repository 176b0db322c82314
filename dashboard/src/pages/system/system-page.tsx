import { type AnswerOf, addressOf } from '../../api/client.ts';
import { useOperation } from '../../api/query.ts';
import { Code, CodeBlock } from '../../ui/code.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Figures } from '../../ui/figures.tsx';
import { OutsideLink } from '../../ui/link.tsx';
import { Loading } from '../../ui/loading.tsx';
import { bytes, count, percent } from '../../ui/numbers.tsx';
import { Facts, Page, Section } from '../../ui/page.tsx';
import { Status } from '../../ui/status.tsx';
import { Table } from '../../ui/table.tsx';
import { Duration, duration, Time } from '../../ui/time.tsx';

const ASK_MS = 5_000;

type System = NonNullable<AnswerOf<'getDetailedHealth'>['system']>;

const NAMES: Readonly<Record<string, string>> = {
  api: 'API',
  database: 'Database',
  storage: 'Storage',
  sandbox: 'Sandbox',
};

/** Which parts of the platform work; for its operator also what its process knows of itself. */
export function SystemPage() {
  const { data, error, refetch } = useOperation('getDetailedHealth', {}, { refetchInterval: ASK_MS });
  return (
    <Page
      title="System"
      description="The parts of this platform, looked at every 5 seconds."
      actions={data && <Status value={data.status} />}
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Parts"
          rows={data.services}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Part', cell: ({ name }) => NAMES[name] ?? name },
            { title: 'State', cell: ({ status }) => <Status value={status} /> },
            { title: 'Answers in', cell: ({ latency_ms }) => <Duration ms={latency_ms} />, isNumber: true },
          ]}
        />
      )}
      {data?.system && <SystemFacts system={data.system} />}
      {data && !data.system && (
        <Section
          title="For the operator"
          description="Versions, sandboxes, disk and delays are shown on the platform's own machine. On AWS they are in CloudWatch."
        >
          <p>From elsewhere, ask with the operator's key:</p>
          <CodeBlock
            text={`curl -H "Authorization: Bearer $PLATFORM_OPERATOR_KEY" ${addressOf('getDetailedHealth')}`}
          />
        </Section>
      )}
    </Page>
  );
}

function SystemFacts({ system }: { readonly system: System }) {
  const { sandbox, disk, event_loop_delay_ms: delay } = system;
  return (
    <>
      {sandbox.problem !== null && (
        <div role="alert" className="rounded-lg border border-line bg-bad-ground p-3">
          <p className="font-medium">Programs have no working sandbox</p>
          <p>{sandbox.problem}</p>
        </div>
      )}
      <Figures
        label="Now"
        figures={[
          { name: 'Sandboxes', value: `${count(sandbox.running)} of ${count(sandbox.max)}`, note: sandbox.kind },
          {
            name: 'Waiting for one',
            value: count(sandbox.waiting),
            note: sandbox.waiting > 0 ? `the first for ${duration(sandbox.queue_age_ms)}` : 'nobody waits',
          },
          {
            name: 'Disk left',
            value: bytes(disk.free_bytes),
            note: `${percent(disk.free_bytes, disk.size_bytes)} of ${bytes(disk.size_bytes)}`,
          },
          { name: 'Database', value: bytes(disk.database_bytes), note: 'on that disk' },
          {
            name: 'Event loop waits',
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
              <OutsideLink key="metrics" href={addressOf('getMetrics')}>
                For Prometheus
              </OutsideLink>,
            ],
          ]}
        />
      </Section>
    </>
  );
}
