import { KeyRound, Plus } from 'lucide-react';
import { useState } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { useAction, useOperation } from '../../api/query.ts';
import { useWorkspace } from '../../api/session.ts';
import { COMMAND } from '../../base.ts';
import { Button } from '../../ui/button.tsx';
import { Badge } from '../../ui/data/status.tsx';
import { Table } from '../../ui/data/table.tsx';
import { Time } from '../../ui/data/time.tsx';
import { ConfirmDialog } from '../../ui/dialog.tsx';
import { Empty } from '../../ui/empty.tsx';
import { ErrorBox } from '../../ui/error-box.tsx';
import { Loading } from '../../ui/loading.tsx';
import { Section } from '../../ui/page.tsx';
import { ShownOnce } from '../../ui/shown-once.tsx';
import { Code, CodeBlock } from '../../ui/text/code.tsx';
import { SchemaTable } from './schema-table.tsx';
import { UseFrom } from './use-from.tsx';
import type { Version } from './version.ts';

/** Shows how programs and other agents call an agent, its input and output schemas, and its metadata. */
export default function ApiTab({ agent }: { readonly agent: Version }) {
  const { role } = useWorkspace();
  const isCalled = agent.execution_engine !== null && agent.run_mode === 'on_demand';
  return (
    <>
      {isCalled && <UseFrom agent={agent} />}
      <Section title="Input">
        <SchemaTable label="Input" schema={agent.input_schema} />
      </Section>
      <Section title="Output">
        <SchemaTable label="Output" schema={agent.output_schema} />
      </Section>
      {agent.callable && (
        <Section
          title="Use as a tool in coding agents"
          description="The MCP server of the command line offers the agents of this workspace as tools, with your permissions."
        >
          <CodeBlock text={MCP} label="Copy configuration" />
        </Section>
      )}
      <Tree agent={agent} />
      {role === 'owner' && <ServiceKeys agent={agent} />}
    </>
  );
}

/** Same configuration as `platform agent-setup` writes. */
const MCP = JSON.stringify(
  { mcpServers: { platform: { command: 'npx', args: ['--no', 'platform', 'mcp'] } } },
  null,
  2,
);

type TreeNode = Omit<AnswerOf<'getAgentTree'>['dependencies'][number], 'dependencies'> & {
  readonly dependencies: readonly unknown[];
};

function Tree({ agent: { org_slug, name, version } }: { readonly agent: Version }) {
  const { data, error, refetch } = useOperation('getAgentTree', { params: { id: org_slug, agent: name, version } });
  return (
    <Section title="Dependencies">
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <>
          <ul>
            <Branch node={{ ...data, accessible: true }} />
          </ul>
          {data.dependencies.length === 0 && data.skills.length === 0 && (
            <p className="text-soft">This agent calls no other agents and uses no skills.</p>
          )}
        </>
      )}
    </Section>
  );
}

function Branch({ node }: { readonly node: TreeNode }) {
  const { agent, type, skills, dependencies, accessible, repeated } = node;
  return (
    <li>
      <span className="flex flex-wrap items-center gap-1.5 py-0.5">
        <span className="font-mono text-xs break-all">{agent}</span>
        {type && <Badge>{type}</Badge>}
        {!accessible && <Badge tone="bad">Not found, or no access</Badge>}
        {repeated && <Badge>Shown above</Badge>}
      </span>
      {skills.length + dependencies.length > 0 && (
        <ul className="ml-2 border-l border-line pl-3">
          {skills.map((skill) => (
            <li key={skill} className="flex flex-wrap items-center gap-1.5 py-0.5">
              <span className="font-mono text-xs break-all">{skill}</span> <Badge tone="info">skill</Badge>
            </li>
          ))}
          {(dependencies as readonly TreeNode[]).map((each) => (
            <Branch key={each.agent} node={each} />
          ))}
        </ul>
      )}
    </li>
  );
}

function ServiceKeys({ agent: { id, name } }: { readonly agent: Version }) {
  const { data, error, refetch } = useOperation('listServiceKeys', { params: { id } });
  const make = useAction('createServiceKey', { stale: ['listServiceKeys'] });
  const revoke = useAction('deleteServiceKey', { stale: ['listServiceKeys'], silent: true });
  // The key exists only in this state and is discarded with the dialog.
  const [key, setKey] = useState<string>();
  const [revoked, setRevoked] = useState<{ readonly id: string; readonly prefix: string }>();
  const start = async () => {
    try {
      const { key: made } = await make.mutateAsync({ params: { id } });
      make.reset();
      setKey(made);
    } catch {
      // A toast shows the error.
    }
  };
  return (
    <Section
      title="Service keys"
      description={`A service key lets ${name} call its dependencies from anywhere. All its versions share the keys.`}
      actions={
        <Button icon={Plus} onPress={() => void start()} isPending={make.isPending}>
          Create service key
        </Button>
      }
    >
      {error && <ErrorBox error={error} onRetry={() => void refetch()} />}
      {!data && !error && <Loading />}
      {data && (
        <Table
          label="Service keys"
          rows={data.keys}
          keyOf={(each) => each.id}
          columns={[
            { title: 'Key', cell: ({ prefix }) => <Code>{`${prefix}…`}</Code> },
            { title: 'Created', cell: ({ created_at }) => <Time at={created_at} />, from: 'sm' },
            {
              title: 'Last used',
              cell: ({ last_used_at }) => (last_used_at ? <Time at={last_used_at} /> : 'Never'),
            },
            {
              title: 'Action',
              cell: (each) => (
                <Button variant="danger" aria-label={`Revoke ${each.prefix}`} onPress={() => setRevoked(each)}>
                  Revoke
                </Button>
              ),
            },
          ]}
          empty={
            <Empty icon={KeyRound} title="No service keys" command={`${COMMAND} agent-keys create ${name}`}>
              Create one above, or from a terminal:
            </Empty>
          }
        />
      )}
      {key !== undefined && <ShownOnce title={`Service key of ${name}`} text={key} onClose={() => setKey(undefined)} />}
      <ConfirmDialog
        title={`Revoke ${revoked?.prefix}…?`}
        isOpen={revoked !== undefined}
        onClose={() => setRevoked(undefined)}
        action="Revoke key"
        onConfirm={() => revoke.mutateAsync({ params: { id, key_id: revoked!.id } })}
      >
        Requests with this key are refused from now on.
      </ConfirmDialog>
    </Section>
  );
}
