import { runSharesSuite } from '#test/conformance/run-shares.ts';
import { newTables } from '#test/helpers/aws.ts';

runSharesSuite(newTables);
