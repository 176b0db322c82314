import { operations } from '../operation.ts';

export default operations([
  { name: 'info', operation: 'getBulk', example: 'bulk info BULK_ID' },
  { name: 'abort', operation: 'abortBulk', example: 'bulk abort BULK_ID' },
]);
