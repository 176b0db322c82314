import { operations } from '../operation.ts';

export default operations([
  {
    name: 'list',
    operation: 'listGrants',
    list: 'grants',
    columns: ['agent', 'version', 'secrets', 'scopes', 'egress', 'granted_at'],
    example: 'grants list',
  },
  {
    name: 'put',
    operation: 'putGrant',
    named: { version: 'agent_version' },
    one: 'grant',
    example: 'grants put acme/triage --agent-version v1 --secrets GITHUB_TOKEN --scopes tasks,messages',
  },
  { name: 'info', operation: 'getGrant', one: 'grant', example: 'grants info acme/triage' },
  {
    name: 'delete',
    operation: 'deleteGrant',
    confirm: 'Revoke all access granted to',
    example: 'grants delete acme/triage --yes',
  },
]);
