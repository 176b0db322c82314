import { operations } from '../operation.ts';

export default operations([
  { name: 'workspace', operation: 'getOperatorWorkspace', example: 'operator workspace main' },
  { name: 'plan', operation: 'putOperatorPlan', args: ['plan'], example: 'operator plan main team' },
  {
    name: 'credits',
    operation: 'giveOperatorCredits',
    args: ['amount_cents'],
    example: 'operator credits main 2500 --id invoice-4711',
  },
]);
