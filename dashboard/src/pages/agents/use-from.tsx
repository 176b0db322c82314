import { useState } from 'react';
import { addressOf } from '../../api/client.ts';
import { API_URL, COMMAND } from '../../base.ts';
import { Select } from '../../ui/field.tsx';
import { OutsideLink } from '../../ui/link.tsx';
import { Facts, Section } from '../../ui/page.tsx';
import { sampleOf } from '../../ui/sample-value.ts';
import { Code, CodeBlock } from '../../ui/text/code.tsx';
import { snippetOf } from './snippets.ts';
import { timeLimitOf } from './time-limit.ts';
import type { Version } from './version.ts';

const WAYS = ['curl', 'TypeScript', 'Python', 'OpenAPI'] as const;
type Way = (typeof WAYS)[number];

/** Shows how a program, a client of a protocol and a generator of clients reach an agent. */
export function UseFrom({ agent }: { readonly agent: Version }) {
  const [way, setWay] = useState<Way>('curl');
  const { org_slug: org, name, version, default_endpoint } = agent;
  return (
    <Section
      title="Use it from"
      actions={
        <div className="w-36">
          <Select
            label="Use it from"
            isLabelHidden
            value={way}
            onChange={(next) => setWay(next as Way)}
            choices={WAYS.map((each) => ({ id: each, label: each }))}
          />
        </div>
      }
    >
      <div className="flex flex-col gap-3">
        <CodeBlock text={textFor(way, agent)} />
        <Facts
          facts={[
            ['URL', <Code key="url">{`${API_URL}/${org}/${name}/${version}/${default_endpoint}`}</Code>],
            ['Latest version', <Code key="latest">{`${API_URL}/${org}/${name}/latest/${default_endpoint}`}</Code>],
            ['Time limit', timeLimitOf(agent)],
            [
              'OpenAPI description',
              <OutsideLink key="openapi" href={addressOf('getAgentOpenApi', { params: { org, agent: name, version } })}>
                openapi.json
              </OutsideLink>,
            ],
            ['MCP, this agent', <Code key="mcp">{`${API_URL}/${org}/${name}/mcp`}</Code>],
            ['MCP, all agents', <Code key="mcp-all">{`${API_URL}/mcp`}</Code>],
            ['A2A', <Code key="a2a">{`${API_URL}/a2a/${org}/${name}`}</Code>],
          ]}
        />
      </div>
    </Section>
  );
}

function textFor(way: Way, agent: Version): string {
  const { org_slug: org, name, version, default_endpoint: endpoint, input_schema } = agent;
  const input = JSON.stringify(sampleOf(input_schema));
  const reference = `${org}/${name}@${version}`;
  switch (way) {
    case 'curl':
      return snippetOf('curl', { url: API_URL, org, agent: name, version, endpoint, input, files: [], headers: {} });
    case 'TypeScript':
      return [
        `// ${COMMAND} client ts ${reference} --out ${name}.ts`,
        `import { run } from './${name}.ts';`,
        '',
        `const { data } = await run(${input});`,
        'console.log(data);',
      ].join('\n');
    case 'Python': {
      const words = name.replaceAll('-', '_');
      const module = /^\d/.test(words) ? `client_${words}` : words;
      return [
        `# ${COMMAND} client python ${reference} --out ${module}.py`,
        'import json',
        `from ${module} import run`,
        '',
        `print(run(json.loads(${JSON.stringify(input)})).data)`,
      ].join('\n');
    }
    case 'OpenAPI':
      return [
        'curl -H "Authorization: Bearer $PLATFORM_API_KEY" \\',
        `  ${addressOf('getAgentOpenApi', { params: { org, agent: name, version } })}`,
      ].join('\n');
  }
}
