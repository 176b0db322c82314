import type { Configure } from './shared/cli.ts';

interface CommandRow {
  readonly name: string;
  readonly summary: string;
  /** Loads the code of a command only when it runs, to keep help fast. */
  load(): Promise<{ readonly default: Configure }>;
}

/** All commands, in the order and groups of the help. */
export const COMMANDS: { readonly [group: string]: readonly CommandRow[] } = {
  'Sign in:': [
    { name: 'login', summary: 'Sign in to a platform', load: () => import('./commands/login.ts') },
    { name: 'logout', summary: 'Sign out and remove a profile', load: () => import('./commands/logout.ts') },
    {
      name: 'whoami',
      summary: 'Show the signed-in user, workspace and platform',
      load: () => import('./commands/whoami.ts'),
    },
    {
      name: 'profiles',
      summary: 'List profiles',
      load: () => import('./commands/profiles.ts'),
    },
    { name: 'switch', summary: 'Switch to another profile', load: () => import('./commands/switch.ts') },
    {
      name: 'open',
      summary: 'Open the dashboard, an agent, a run or a schedule in the browser',
      load: () => import('./commands/open.ts'),
    },
    { name: 'doctor', summary: 'Diagnose problems with the setup', load: () => import('./commands/doctor.ts') },
  ],
  'Agents:': [
    {
      name: 'init',
      summary: 'Create a new agent from a template, an example or an existing project',
      load: () => import('./commands/init.ts'),
    },
    { name: 'dev', summary: 'Publish on every change and watch the runs', load: () => import('./commands/dev.ts') },
    { name: 'test', summary: 'Run the tests of an agent', load: () => import('./commands/test.ts') },
    { name: 'eval', summary: 'Evaluate a published agent by its suites', load: () => import('./commands/eval.ts') },
    {
      name: 'import-evals',
      summary: 'Write suites from a file of promptfoo or an export of OpenAI',
      load: () => import('./commands/import-evals.ts'),
    },
    {
      name: 'validate',
      summary: 'Validate an agent without publishing it',
      load: () => import('./commands/validate.ts'),
    },
    { name: 'publish', summary: 'Publish an agent', load: () => import('./commands/publish.ts') },
    { name: 'run', summary: 'Call an agent', load: () => import('./commands/run.ts') },
    { name: 'chat', summary: 'Talk with an agent', load: () => import('./commands/chat.ts') },
    { name: 'agents', summary: 'List the agents in the workspace', load: () => import('./commands/agents.ts') },
    { name: 'info', summary: 'Show details of an agent', load: () => import('./commands/info.ts') },
    {
      name: 'schema',
      summary: 'Show the input and output schemas of an agent',
      load: () => import('./commands/schema.ts'),
    },
    {
      name: 'types',
      summary: 'Write the types of an agent for TypeScript or Python',
      load: () => import('./commands/types.ts'),
    },
    {
      name: 'client',
      summary: 'Write a typed client of an agent, for TypeScript or Python',
      load: () => import('./commands/client.ts'),
    },
    { name: 'versions', summary: 'List the versions of an agent', load: () => import('./commands/versions.ts') },
    { name: 'channels', summary: 'List the channels of an agent', load: () => import('./commands/channels.ts') },
    {
      name: 'promote',
      summary: 'Make a channel name a version, or give a version a part of its calls',
      load: () => import('./commands/promote.ts'),
    },
    {
      name: 'rollback',
      summary: 'Take a channel back to the version before',
      load: () => import('./commands/rollback.ts'),
    },
    { name: 'diff', summary: 'Compare two versions of an agent', load: () => import('./commands/diff.ts') },
    { name: 'tree', summary: 'Show the dependency tree of an agent', load: () => import('./commands/tree.ts') },
    { name: 'pull', summary: 'Download the source of an agent', load: () => import('./commands/pull.ts') },
    { name: 'skill', summary: 'List and install skills', load: () => import('./commands/skill.ts') },
    { name: 'fork', summary: 'Fork a public agent into the workspace', load: () => import('./commands/fork.ts') },
    {
      name: 'update',
      summary: 'Edit the metadata and settings of a version',
      load: () => import('./commands/update.ts'),
    },
    {
      name: 'delete',
      summary: 'Delete a version or an agent (kept for 30 days)',
      load: () => import('./commands/delete.ts'),
    },
    { name: 'estimate', summary: 'Estimate the cost of a call', load: () => import('./commands/estimate.ts') },
    { name: 'search', summary: 'Search public agents', load: () => import('./commands/search.ts') },
  ],
  'Runs:': [
    { name: 'runs', summary: 'List runs', load: () => import('./commands/runs.ts') },
    { name: 'logs', summary: 'Show the logs and output of a run', load: () => import('./commands/logs.ts') },
    { name: 'trace', summary: 'Show the trace of a run', load: () => import('./commands/trace.ts') },
    { name: 'dag', summary: 'Show the call tree of a run, with costs', load: () => import('./commands/dag.ts') },
    {
      name: 'replay',
      summary: 'Rerun a run with the same or another input, or from one of its turns',
      load: () => import('./commands/replay.ts'),
    },
    { name: 'sessions', summary: 'Manage conversations with agents', load: () => import('./commands/sessions.ts') },
    {
      name: 'approvals',
      summary: 'List the calls and questions that wait for a decision',
      load: () => import('./commands/approvals.ts'),
    },
    {
      name: 'approve',
      summary: 'Approve or refuse a call that waits, or answer a question',
      load: () => import('./commands/approve.ts'),
    },
    { name: 'cancel', summary: 'Cancel runs', load: () => import('./commands/cancel.ts') },
    {
      name: 'bulk',
      summary: 'Manage bulk actions on runs',
      load: () => import('./commands/bulk.ts'),
    },
    {
      name: 'share',
      summary: 'Manage read-only links to runs',
      load: () => import('./commands/share.ts'),
    },
    {
      name: 'chat-link',
      summary: 'Manage links by which people without an account talk to an agent',
      load: () => import('./commands/chat-link.ts'),
    },
  ],
  'Automation:': [
    {
      name: 'schedule',
      summary: 'Manage schedules and webhooks',
      load: () => import('./commands/schedule.ts'),
    },
    { name: 'service', summary: 'Manage always-on services', load: () => import('./commands/service.ts') },
    {
      name: 'destinations',
      summary: 'Manage the addresses to which ends of runs are posted',
      load: () => import('./commands/destinations.ts'),
    },
    {
      name: 'telemetry',
      summary: 'Send the spans of runs to an OpenTelemetry collector',
      load: () => import('./commands/telemetry.ts'),
    },
  ],
  'Workspace:': [
    { name: 'secrets', summary: 'Manage the secrets of the workspace', load: () => import('./commands/secrets.ts') },
    {
      name: 'connect',
      summary: 'Sign in at an MCP server or an HTTP API, so that agents can use it',
      load: () => import('./commands/connect.ts'),
    },
    {
      name: 'connections',
      summary: 'Manage connections to MCP servers and HTTP APIs',
      load: () => import('./commands/connections.ts'),
    },
    {
      name: 'providers',
      summary: 'Manage the model providers of the workspace',
      load: () => import('./commands/providers.ts'),
    },
    {
      name: 'workspace',
      summary: 'Manage workspaces and their members',
      load: () => import('./commands/workspace.ts'),
    },
    { name: 'invite', summary: 'View and accept an invitation', load: () => import('./commands/invite.ts') },
    {
      name: 'grants',
      summary: "Manage the access of other workspaces' agents",
      load: () => import('./commands/grants.ts'),
    },
    { name: 'keys', summary: 'Manage your API keys', load: () => import('./commands/keys.ts') },
    {
      name: 'trusts',
      summary: 'Let CI jobs publish agents without a stored key',
      load: () => import('./commands/trusts.ts'),
    },
    {
      name: 'agent-keys',
      summary: 'Manage the service keys of an agent',
      load: () => import('./commands/agent-keys.ts'),
    },
    { name: 'task', summary: 'Manage tasks', load: () => import('./commands/task.ts') },
    { name: 'message', summary: 'Manage messages', load: () => import('./commands/message.ts') },
    { name: 'storage', summary: 'Manage stored JSON documents', load: () => import('./commands/storage.ts') },
    { name: 'memory', summary: 'Manage what agents remember', load: () => import('./commands/memory.ts') },
    { name: 'scores', summary: 'Score runs, and compare versions by it', load: () => import('./commands/scores.ts') },
    { name: 'usage', summary: 'Show usage statistics', load: () => import('./commands/usage.ts') },
    { name: 'billing', summary: 'Show and buy credits', load: () => import('./commands/billing.ts') },
    { name: 'budget', summary: 'Manage spending budgets', load: () => import('./commands/budget.ts') },
    {
      name: 'operator',
      summary: 'Manage plans and credits (requires the operator key)',
      load: () => import('./commands/operator.ts'),
    },
  ],
  'Self-hosting:': [
    { name: 'start', summary: 'Start a platform on this machine', load: () => import('./commands/start.ts') },
    { name: 'status', summary: 'Show the status of the local platform', load: () => import('./commands/status.ts') },
    { name: 'backup', summary: 'Back up all data to one file', load: () => import('./commands/backup.ts') },
    { name: 'restore', summary: 'Restore a data folder from a backup', load: () => import('./commands/restore.ts') },
    {
      name: 'upgrade',
      summary: 'Upgrade the data to the installed version',
      load: () => import('./commands/upgrade.ts'),
    },
    {
      name: 'systemd-unit',
      summary: 'Print a systemd unit for the platform',
      load: () => import('./commands/systemd-unit.ts'),
    },
  ],
  'Other commands:': [
    { name: 'mcp', summary: 'Run an MCP server for coding agents', load: () => import('./commands/mcp.ts') },
    {
      name: 'agent-setup',
      summary: 'Configure coding agents to use the platform',
      load: () => import('./commands/agent-setup.ts'),
    },
    { name: 'docs', summary: 'Read the documentation offline', load: () => import('./commands/docs.ts') },
    { name: 'api', summary: 'Send a request to any operation of the API', load: () => import('./commands/api.ts') },
    // `program.ts` replaces this command, because the script needs all commands.
    {
      name: 'completion',
      summary: 'Print a shell completion script',
      load: async () => ({ default: () => {} }),
    },
  ],
};
