import { operations } from '../operation.ts';

const columns = ['id', 'email', 'name', 'role', 'accepted_at'];

export default operations([
  {
    name: 'list',
    operation: 'listWorkspaces',
    list: 'workspaces',
    columns: ['slug', 'name', 'type', 'role', 'member_count', 'id'],
    example: 'workspace list',
  },
  {
    name: 'create',
    operation: 'createWorkspace',
    args: ['name'],
    one: 'workspace',
    example: "workspace create 'Data Team'",
  },
  { name: 'info', operation: 'getOrg', summary: 'Show the current workspace', example: 'workspace info' },
  {
    name: 'update',
    operation: 'updateOrg',
    summary: 'Change the name or a setting of the current workspace',
    example: 'workspace update --timezone Europe/Berlin',
  },
  { name: 'limits', operation: 'getLimits', example: 'workspace limits' },
  { name: 'members', operation: 'listMembers', list: 'members', columns, example: 'workspace members' },
  {
    name: 'invite',
    operation: 'inviteMember',
    args: ['email'],
    one: 'invite',
    example: 'workspace invite grace@example.com',
  },
  {
    name: 'revoke',
    operation: 'revokeInvite',
    summary: 'Revoke an invitation',
    example: 'workspace revoke grace@example.com',
  },
  { name: 'role', operation: 'updateMember', args: ['role'], example: 'workspace role ada@example.com owner' },
  {
    name: 'remove',
    operation: 'removeMember',
    confirm: 'Remove the member',
    example: 'workspace remove ada@example.com --yes',
  },
  { name: 'rotate-signing-secret', operation: 'rotateSigningSecret', example: 'workspace rotate-signing-secret' },
]);
