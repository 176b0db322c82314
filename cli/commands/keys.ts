import { operations } from '../operation.ts';

export default operations([
  { name: 'list', operation: 'listApiKeys', example: 'keys list' },
  { name: 'create', operation: 'createApiKey', args: ['name'], example: "keys create 'build server'" },
  {
    name: 'delete',
    operation: 'deleteApiKey',
    loses: 'Whoever uses the key is signed out',
    example: 'keys delete KEY_ID --yes',
  },
]);
