import { SystemClock } from '#core/ports/clock.ts';
import { topUpsSuite } from '#test/conformance/top-ups.ts';
import { newTables } from '#test/helpers/aws.ts';

topUpsSuite(() => newTables(new SystemClock()), { rounds: 30 });
