import { operations } from '../operation.ts';

export default operations([
  {
    name: 'list',
    operation: 'listConnections',
    list: 'connections',
    columns: ['name', 'owner', 'url', 'state', 'last_used_at'],
    example: 'connections list',
  },
  {
    name: 'show',
    operation: 'getConnection',
    one: 'connection',
    example: 'connections show github',
  },
  {
    name: 'remove',
    operation: 'deleteConnection',
    confirm: 'Remove the connection',
    example: 'connections remove github --yes',
  },
]);
