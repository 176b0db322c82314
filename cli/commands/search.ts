import { addOperation } from '../operation.ts';
import type { Configure } from '../shared/cli.ts';

const search: Configure = (command, cli) =>
  addOperation(command, cli, {
    name: 'search',
    operation: 'listPublicAgents',
    args: ['search'],
    columns: ['org_slug', 'name', 'version', 'type', 'description'],
    example: 'search invoices',
  });

export default search;
