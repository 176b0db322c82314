import { testPages } from './page-commands.ts';
import { COMMAND_PAGES } from './pages.ts';

testPages(COMMAND_PAGES);
