import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

export const ROOT = join(import.meta.dirname, '../..');

/** Pages whose commands a test runs, because readers type them. */
export const COMMAND_PAGES = [
  'README.md',
  'examples/README.md',
  ...globSync(['docs/*.md', 'docs/{errors,tutorials,migrate}/*.md'], { cwd: ROOT }).sort(),
];

/** Returns the error code that a page is about. */
export const errorCodeOf = (page: string): string | undefined => /^docs\/errors\/([A-Z_]+)\.md$/.exec(page)?.[1];

/** A fenced block of a page. */
export interface Block {
  readonly page: string;
  /** Line of the opening fence, from 1. */
  readonly line: number;
  /** Info string of the fence: `sh`, `sh no-run`, `json` and the like. */
  readonly info: string;
  readonly text: string;
}

/** Returns the fenced blocks of a page in order, without the indentation of lists. */
export function blocksOf(page: string): Block[] {
  const blocks: Block[] = [];
  let open: { indent: number; line: number; info: string; lines: string[] } | undefined;
  for (const [index, line] of readFileSync(join(ROOT, page), 'utf8').split('\n').entries()) {
    const fence = /^( *)```(.*)$/.exec(line);
    if (fence === null) open?.lines.push(line.slice(open.indent));
    else if (open === undefined)
      open = { indent: fence[1]!.length, line: index + 1, info: fence[2]!.trim(), lines: [] };
    else {
      blocks.push({ page, line: open.line, info: open.info, text: `${open.lines.join('\n')}\n` });
      open = undefined;
    }
  }
  return blocks;
}

/** Pages of `docs/migrate` whose project needs the packages of a framework. */
const FRAMEWORK_PAGES = [
  'adk',
  'ai-sdk',
  'apify',
  'crewai',
  'django',
  'express',
  'fastapi',
  'flask',
  'gradio',
  'hono',
  'langgraph',
  'mastra',
  'nextjs',
  'openai-agents',
  'pydantic-ai',
  'streamlit',
];

/** Commands that no test runs, by their beginning, with the reason. */
export const NOT_RUN: readonly { readonly page: string; readonly begins: string; readonly reason: string }[] = [
  { page: 'README.md', begins: 'npm ci && npm run demo', reason: 'installs the packages that this test runs with' },
  { page: 'README.md', begins: 'npm ci && npm test', reason: 'runs this test' },
  { page: 'README.md', begins: 'npm start', reason: 'goes on for ever; the commands below it run on such a platform' },
  ...FRAMEWORK_PAGES.map((name) => ({
    page: `docs/migrate/${name}.md`,
    begins: 'npx platform publish',
    reason: 'installs the framework; test/cli/init-from.frameworks.ts does it',
  })),
  { page: 'docs/sdk.md', begins: 'npx platform types', reason: 'the agent is made up; types.test.ts runs the command' },
  {
    page: 'docs/clients.md',
    begins: 'npx openapi-typescript',
    reason: 'the agent is made up, and the tool is downloaded',
  },
  {
    page: 'docs/develop.md',
    begins: 'npx platform dev',
    reason: 'goes on until it is ended; test/cli/dev.heavy.test.ts runs it',
  },
  ...['\n', ' --answer', ' --link'].map((end) => ({
    page: 'docs/approvals.md',
    begins: `npx platform approve 7f3a9c21${end}`,
    reason: 'the run is made up; test/cli/approvals.test.ts decides about one',
  })),
  { page: 'docs/approvals.md', begins: 'curl -X POST https://.../webhooks/events/', reason: 'the address is made up' },
  {
    page: 'docs/ag-ui.md',
    begins: 'curl -N -X POST',
    reason: 'the agent is made up; test/e2e/suites/ag-ui.ts talks to one',
  },
  { page: 'docs/ag-ui.md', begins: 'curl -X DELETE', reason: 'the run is made up' },
  {
    page: 'docs/a2a.md',
    begins: 'curl -X POST "$api/a2a/main/refund-desk',
    reason: 'the task is made up; test/e2e/suites/a2a.ts answers one',
  },
  {
    page: 'docs/a2a.md',
    begins: 'PLATFORM_A2A_KEY_FILE',
    reason: 'goes on for ever; test/e2e/signed-cards.test.ts starts one',
  },
  { page: 'docs/a2a.md', begins: 'aws secretsmanager create-secret', reason: 'needs an AWS account' },
  {
    page: 'docs/telemetry.md',
    begins: 'export OTEL_EXPORTER_OTLP_ENDPOINT',
    reason: 'goes on for ever; test/wires/collector.frameworks.ts starts one',
  },
  { page: 'docs/telemetry.md', begins: 'aws secretsmanager create-secret', reason: 'needs an AWS account' },
  { page: 'docs/loops.md', begins: 'npx platform approve 7f3a9c21', reason: 'the run is made up' },
  { page: 'docs/egress.md', begins: 'curl -s http://db.example.com:5432', reason: 'runs inside an agent' },
  { page: 'docs/dashboard.md', begins: 'npx platform open', reason: 'signs in whoever has a terminal, and only there' },
  { page: 'docs/skills.md', begins: 'platform skill install', reason: 'needs a repository of a Git host' },
  ...['connect linear https', 'connect linear --mine', 'connections remove', 'connect github'].map((command) => ({
    page: 'docs/connections.md',
    begins: `npx platform ${command}`,
    reason: 'needs an account at a provider; test/e2e/suites/connections.ts connects to one that runs here',
  })),
  { page: 'docs/sign-in.md', begins: 'export PLATFORM_BASE_URL', reason: 'needs an OpenID provider' },
  { page: 'docs/sign-in.md', begins: 'aws secretsmanager create-secret', reason: 'needs an AWS account' },
  { page: 'docs/keys.md', begins: 'npx platform start --new-key', reason: 'needs a platform that is stopped' },
  { page: 'docs/aws.md', begins: 'npm ci', reason: 'deploys to an AWS account' },
  { page: 'docs/aws.md', begins: 'npm run e2e', reason: 'needs a deployed platform' },
  { page: 'docs/aws.md', begins: 'm=http://127.0.0.1:4990', reason: 'runs the whole end-to-end suite' },
  { page: 'docs/billing.md', begins: 'aws secretsmanager create-secret', reason: 'needs an AWS account' },
  { page: 'docs/billing.md', begins: 'openssl rand', reason: 'needs a platform with an operator key' },
  {
    page: 'docs/cdk.md',
    begins: 'npm run release -- pack --only construct',
    reason: 'downloads packages; test/stacks/package.aws.test.ts packs it, installs it and synthesises the example',
  },
  {
    page: 'docs/cdk.md',
    begins: 'npx agent-platform-synth',
    reason: 'deploys to AWS; test/stacks/package.aws.test.ts makes the assembly and lists its stacks',
  },
  { page: 'docs/deploy.md', begins: 'for service in ecs', reason: 'changes an AWS account' },
  { page: 'docs/deploy.md', begins: 'npm run cdk -- bootstrap', reason: 'changes an AWS account' },
  ...[
    'for t in main runs counters; do\n  aws dynamodb restore',
    'aws dynamodb update-table',
    'for t in main runs counters; do\n  aws dynamodb wait',
    'old=$(aws lambda',
  ].map((begins) => ({ page: 'docs/deploy.md', begins, reason: 'restores tables of an AWS account' })),
  ...['status', 'clean'].map((action) => ({
    page: 'docs/secrets-on-aws.md',
    begins: `npm run aws:secrets -- ${action}`,
    reason: 'needs an AWS account',
  })),
  { page: 'docs/deploy.md', begins: 'policies=$(for n in 1 2 3', reason: 'creates policies in an AWS account' },
  ...[
    'export AWS_PROFILE=…',
    'aws service-quotas request',
    'aws cloudfront create-distribution',
    'for service in ecs',
    'npm run cdk -- bootstrap',
    'npm run aws:doctor -- first\nnpm run cdk -- diff',
    'export api=<BaseUrl>',
    'npm run e2e -- --base-url $api --key $key --interpreters',
    'npm run aws:doctor -- first\nnpm run cdk -- deploy',
    'curl -sI',
    'curl -sN',
    'npx platform login',
    'aws cloudwatch describe-alarms',
    'while sleep 0.2',
    'npm run cdk -- deploy platform/api',
    'aws cloudwatch describe-alarm-history',
    'aws ce get-cost-and-usage',
    'npm run cdk -- destroy',
  ].map((begins) => ({ page: 'docs/first-account.md', begins, reason: 'needs an AWS account' })),
  { page: 'docs/operate.md', begins: 'aws events list-targets', reason: 'needs an AWS account' },
  { page: 'docs/operate.md', begins: 'id=$(aws cloudfront list-distributions', reason: 'needs an AWS account' },
  ...['store=<ARN', 'npm run aws:workspace -- export', 'for file in ../acme-move-directory'].map((begins) => ({
    page: 'docs/cells.md',
    begins,
    reason: 'needs an AWS account',
  })),
  { page: 'docs/cells.md', begins: 'PLATFORM_DATA=one npm start', reason: 'needs platforms that are stopped' },
  { page: 'docs/ci.md', begins: 'PLATFORM_API_URL=', reason: 'needs a CI job; test/cli/trusts.test.ts plays one' },
  { page: 'docs/limits.md', begins: 'npm start -- --set-plan', reason: 'needs a platform that is stopped' },
  { page: 'docs/limits.md', begins: 'npm run aws:workspace', reason: 'needs an AWS account' },
  { page: 'docs/limits.md', begins: 'npm start -- --grant-credits', reason: 'needs a platform that is stopped' },
  { page: 'docs/models.md', begins: 'curl -fsSo api.json', reason: 'downloads a table of all models, and goes on' },
  {
    page: 'docs/models.md',
    begins: 'curl -s -X PUT $api/workspaces/$ws/secrets',
    reason: 'sends later requests to a gateway that is not there',
  },
  { page: 'docs/models.md', begins: 'export PLATFORM_TRANSPORTS=', reason: 'needs an AWS account' },
  { page: 'docs/testing.md', begins: 'ANTHROPIC_API_KEY=', reason: 'needs a key of a model provider' },
  { page: 'docs/release.md', begins: 'npm run release -- version', reason: 'changes the tree; test/scripts does it' },
  { page: 'docs/release.md', begins: 'npm run release -- pack', reason: 'takes minutes; test/scripts does it' },
  { page: 'docs/release.md', begins: 'git tag', reason: 'publishes' },
  { page: 'docs/sandbox.md', begins: 'npm run build:runner', reason: 'needs a Docker engine' },
  { page: 'docs/self-host.md', begins: 'npx platform start', reason: 'goes on for ever' },
  {
    page: 'docs/self-host.md',
    begins: 'npm run release -- pack --only platform',
    reason: 'takes a minute; test/scripts/package.heavy.test.ts packs the same',
  },
  {
    page: 'docs/self-host.md',
    begins: 'npx file:./agent-platform-',
    reason: 'goes on for ever; test/scripts/package.heavy.test.ts starts it',
  },
  {
    page: 'docs/self-host.md',
    begins: 'npm install --global ./agent-platform-',
    reason: 'changes the programs of the machine',
  },
  { page: 'docs/self-host.md', begins: 'sudo useradd', reason: 'changes the users and services of the machine' },
  {
    page: 'docs/self-host.md',
    begins: 'docker build',
    reason: 'needs a Docker engine; local/image.heavy.test.ts does it',
  },
  { page: 'docs/self-host.md', begins: 'sudo systemctl stop', reason: 'changes the services of the machine' },
];
