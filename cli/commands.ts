import type { Configure } from './shared/cli.ts';

interface CommandRow {
  readonly name: string;
  readonly summary: string;
  /** The code of a command is read only when it runs: help stays fast. */
  load(): Promise<{ readonly default: Configure }>;
}

/** Every command, in the order and the groups of the help. */
export const COMMANDS: { readonly [group: string]: readonly CommandRow[] } = {
  'Sign in:': [
    { name: 'login', summary: 'Sign in to a platform', load: () => import('./commands/login.ts') },
    { name: 'logout', summary: 'Forget a profile and its key', load: () => import('./commands/logout.ts') },
    { name: 'whoami', summary: 'Show user, workspace and platform', load: () => import('./commands/whoami.ts') },
    {
      name: 'profiles',
      summary: 'List the profiles',
      load: () => import('./commands/profiles.ts'),
    },
    { name: 'switch', summary: 'Change to another profile', load: () => import('./commands/switch.ts') },
    {
      name: 'open',
      summary: 'Sign the browser in, and show an agent, a run or a schedule',
      load: () => import('./commands/open.ts'),
    },
    { name: 'doctor', summary: 'Find out why something does not work', load: () => import('./commands/doctor.ts') },
  ],
  'Agents:': [
    { name: 'init', summary: 'Make the folder of a new agent', load: () => import('./commands/init.ts') },
    { name: 'dev', summary: 'Publish at each change, and watch the runs', load: () => import('./commands/dev.ts') },
    { name: 'test', summary: 'Run the tests of a folder', load: () => import('./commands/test.ts') },
    { name: 'validate', summary: 'Check a folder as publishing would', load: () => import('./commands/validate.ts') },
    { name: 'publish', summary: 'Publish the agent of a folder', load: () => import('./commands/publish.ts') },
    { name: 'run', summary: 'Call an agent', load: () => import('./commands/run.ts') },
    { name: 'agents', summary: 'List the agents of the workspace', load: () => import('./commands/agents.ts') },
    { name: 'info', summary: 'Show an agent', load: () => import('./commands/info.ts') },
    { name: 'schema', summary: 'Show input and output of an agent', load: () => import('./commands/schema.ts') },
    { name: 'versions', summary: 'List the versions of an agent', load: () => import('./commands/versions.ts') },
    { name: 'diff', summary: 'Show how two versions differ', load: () => import('./commands/diff.ts') },
    { name: 'tree', summary: 'Show an agent with all that it calls', load: () => import('./commands/tree.ts') },
    { name: 'pull', summary: 'Write an agent into a folder', load: () => import('./commands/pull.ts') },
    { name: 'skill', summary: 'List and install skills', load: () => import('./commands/skill.ts') },
    { name: 'fork', summary: 'Copy a public agent into the workspace', load: () => import('./commands/fork.ts') },
    {
      name: 'update',
      summary: 'Change how a version is shown and offered',
      load: () => import('./commands/update.ts'),
    },
    {
      name: 'delete',
      summary: 'Delete a version or an agent; kept for 30 days',
      load: () => import('./commands/delete.ts'),
    },
    { name: 'estimate', summary: 'Show what a call is likely to cost', load: () => import('./commands/estimate.ts') },
    { name: 'search', summary: 'Search the public agents', load: () => import('./commands/search.ts') },
  ],
  'Runs:': [
    { name: 'runs', summary: 'List runs', load: () => import('./commands/runs.ts') },
    { name: 'logs', summary: 'Show what a run read, printed and answered', load: () => import('./commands/logs.ts') },
    { name: 'trace', summary: 'Show the steps of a run over time', load: () => import('./commands/trace.ts') },
    { name: 'dag', summary: 'Show the calls below a run, with their costs', load: () => import('./commands/dag.ts') },
    { name: 'replay', summary: 'Run once more with the same input', load: () => import('./commands/replay.ts') },
    { name: 'cancel', summary: 'Cancel runs', load: () => import('./commands/cancel.ts') },
    {
      name: 'bulk',
      summary: 'Actions on many runs that go on without you',
      load: () => import('./commands/bulk.ts'),
    },
  ],
  'Automation:': [
    {
      name: 'schedule',
      summary: 'Run agents on timetables and webhooks',
      load: () => import('./commands/schedule.ts'),
    },
    { name: 'service', summary: 'Keep agents running at an address', load: () => import('./commands/service.ts') },
  ],
  'Workspace:': [
    { name: 'secrets', summary: 'Store keys and passwords of agents', load: () => import('./commands/secrets.ts') },
    { name: 'workspace', summary: 'Workspaces and their members', load: () => import('./commands/workspace.ts') },
    { name: 'invite', summary: 'Accept an invitation', load: () => import('./commands/invite.ts') },
    {
      name: 'grants',
      summary: 'What agents of other workspaces may use',
      load: () => import('./commands/grants.ts'),
    },
    { name: 'keys', summary: 'API keys of yours', load: () => import('./commands/keys.ts') },
    { name: 'agent-keys', summary: 'Keys that agents call with', load: () => import('./commands/agent-keys.ts') },
    { name: 'task', summary: 'Tasks of people and agents', load: () => import('./commands/task.ts') },
    { name: 'message', summary: 'Messages of agents', load: () => import('./commands/message.ts') },
    { name: 'storage', summary: 'JSON documents of agents', load: () => import('./commands/storage.ts') },
    { name: 'usage', summary: 'Who used what', load: () => import('./commands/usage.ts') },
    { name: 'billing', summary: 'Credits, purchases, earnings', load: () => import('./commands/billing.ts') },
    { name: 'budget', summary: 'Caps on what is spent', load: () => import('./commands/budget.ts') },
    {
      name: 'operator',
      summary: 'Plans and credits, with the key of the operator',
      load: () => import('./commands/operator.ts'),
    },
  ],
  'On the machine that has the data:': [
    { name: 'start', summary: 'Run a platform on this machine', load: () => import('./commands/start.ts') },
    { name: 'status', summary: 'Show whether it runs, and how', load: () => import('./commands/status.ts') },
    { name: 'backup', summary: 'Save all its data in one file', load: () => import('./commands/backup.ts') },
    { name: 'restore', summary: 'Make a data folder of a backup', load: () => import('./commands/restore.ts') },
    {
      name: 'upgrade',
      summary: 'Bring the data to the installed version',
      load: () => import('./commands/upgrade.ts'),
    },
    {
      name: 'systemd-unit',
      summary: 'Print a unit of systemd that keeps it running',
      load: () => import('./commands/systemd-unit.ts'),
    },
  ],
  'Everything else:': [
    { name: 'mcp', summary: 'Give coding agents tools, over MCP', load: () => import('./commands/mcp.ts') },
    { name: 'agent-setup', summary: 'Tell coding agents of it', load: () => import('./commands/agent-setup.ts') },
    { name: 'docs', summary: 'Read the documentation, without a network', load: () => import('./commands/docs.ts') },
    { name: 'api', summary: 'Call any operation of the API', load: () => import('./commands/api.ts') },
    // `program.ts` replaces it: the script needs all commands.
    {
      name: 'completion',
      summary: 'Print the completion script of a shell',
      load: async () => ({ default: () => {} }),
    },
  ],
};
