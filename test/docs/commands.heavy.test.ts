import { testPages } from './page-commands.ts';
import { COMMAND_PAGES, isLongRead } from './pages.ts';

testPages(COMMAND_PAGES.filter(isLongRead));
