import { bulkSuite } from '#test/conformance/bulk.ts';
import { newTables } from '#test/helpers/aws.ts';

bulkSuite(newTables, 9);
