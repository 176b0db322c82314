import { onlineSuite } from '#test/conformance/online.ts';
import { newTables } from '#test/helpers/aws.ts';

onlineSuite(newTables, 9);
