import { operations } from '../operation.ts';

export default operations([
  {
    name: 'list',
    operation: 'listTrusts',
    list: 'trusts',
    columns: ['id', 'issuer', 'claims', 'agents', 'expires_at', 'last_used_at'],
    example: 'trusts list',
  },
  {
    name: 'add',
    operation: 'createTrust',
    one: 'trust',
    named: { expires_at: 'expires' },
    example: 'trusts add --repository acme/agents --ref refs/heads/main',
  },
  {
    name: 'delete',
    operation: 'deleteTrust',
    confirm: 'Delete the trust',
    example: 'trusts delete TRUST_ID --yes',
  },
]);
