import { SystemClock } from '#core/ports/clock.ts';
import { ledgerSuite } from '#test/conformance/ledger.ts';
import { newTables } from '#test/helpers/aws.ts';

ledgerSuite(() => newTables(new SystemClock()), { rounds: 5 });
