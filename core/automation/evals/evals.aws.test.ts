import { evalsSuite } from '#test/conformance/evals.ts';
import { newTables } from '#test/helpers/aws.ts';

evalsSuite(newTables, 9);
